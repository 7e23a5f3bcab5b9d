"""What is learned: environments that are played through an engine, token ids in and token ids out.

environment: the protocol. play: one rollout, turn by turn. games: the lab's worlds. tiny_model: a model for
them, made here. taught: the same, after supervised steps.

text: questions in words. text_worlds: from settings. tokenizer: the model's own. questions: a user's file.
answers: found and compared. gym, gym_worker: reasoning-gym. python_tool: programs in a response. sandbox,
jail: where they run.

verifiers_world: conversations of a verifiers environment. verifiers_environment, verifiers_link,
verifiers_worker: its processes. chat: messages to ids. tool_calls: read. order: which row comes when.
"""
