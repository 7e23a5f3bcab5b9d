"""Real vLLM servers, reached over HTTP: token ids in, token ids out.

server: starts one as a process of its own and says why it died. client: asks it. answer: what it said, with the
log-prob and the weights' version of every token. sampling: how tokens are drawn. capability: what a server
must offer. digests: are the weights in an engine those of the trainer?
"""
