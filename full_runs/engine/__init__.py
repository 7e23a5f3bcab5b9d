"""Real vLLM servers, reached over HTTP: token ids in, token ids out.

launch       words and environment of its start
server       one that was started here; says why it died
elsewhere    one that somebody else started
client       asks it
answer       what it said, with log-prob and version of every token
sampling     how tokens are drawn
capability   what a server must offer
extension    takes weights, inside the engine
watch        what it takes, digested and multiplied as it passes
gloo         its end of weights that come over the wire
digests      are the engine's weights those of the trainer?
"""
