"""Real vLLM servers, reached over HTTP: token ids in, token ids out.

server: starts one as a process of its own and says why it died. client: asks it. answer: what it said, with
log-prob and version of every token. sampling: how tokens are drawn. capability: what a server must offer.
extension: takes weights inside the engine. digests: are the engine's weights those of the trainer?
"""
