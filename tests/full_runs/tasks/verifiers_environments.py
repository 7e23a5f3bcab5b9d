"""Small environments of verifiers' own classes, as a user would write them; read where verifiers is.

Each function is a module's `load_environment`; `written` makes such modules.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

HEAD = "import asyncio, os, time\nimport verifiers as vf\nfrom datasets import Dataset\n"
SOURCES = {
    # One turn: reverse a word.
    "reversed_words": """
        def right(completion, answer):
            return float(completion[-1]["content"].strip() == answer)

        def load_environment(count=20, evaluated=0):
            def rows(first, count):
                words = [f"word{n}" for n in range(first, first + count)]
                return Dataset.from_list([{"question": w, "answer": w[::-1]} for w in words])
            held_out = {"eval_dataset": rows(1000, evaluated)} if evaluated else {}
            rubric = vf.Rubric(funcs=[right], weights=[0.5])
            return vf.SingleTurnEnv(dataset=rows(0, count), rubric=rubric, **held_out)
        """,
    # Several turns: guess a number; the fewer turns, the better.
    "guessed_numbers": """
        class Guessing(vf.MultiTurnEnv):
            async def setup_state(self, state):
                state["told"] = 0
                return state

            async def env_response(self, messages, state, **kwargs):
                state["told"] += 1
                said, secret = messages[-1]["content"], int(state["answer"])
                if said == "raise":
                    raise RuntimeError("no such guess")
                if said == "hang":
                    time.sleep(3600)
                if said == "wait":
                    await asyncio.sleep(3600)
                if said == "die":
                    os._exit(7)
                if said == str(secret):
                    state["final_env_response"] = [{"role": "user", "content": "right"}]
                    return state["final_env_response"]
                return [{"role": "user", "content": "higher" if int(said) < secret else "lower"}]

        async def soon(completion, state):
            said = [one["content"] for one in completion if one["role"] == "assistant"]
            assert len(said) == state["told"]
            return 1 / len(said) if said[-1] == state["answer"] else 0.0

        def load_environment(count=20, max_turns=5):
            rows = Dataset.from_list([{"question": f"no. {n}", "answer": str(n)} for n in range(count)])
            return Guessing(
                dataset=rows, rubric=vf.Rubric(funcs=[soon]), max_turns=max_turns, system_prompt="Guess."
            )
        """,
    # Several turns of anything; as many as there were are the reward.
    "chatting": """
        class Chatting(vf.MultiTurnEnv):
            async def env_response(self, messages, state, **kwargs):
                return [{"role": "user", "content": "go on"}]

        def turns(completion):
            return float(len([one for one in completion if one["role"] == "assistant"]))

        def load_environment():
            rows = Dataset.from_list([{"question": str(n), "answer": ""} for n in range(60)])
            return Chatting(dataset=rows, rubric=vf.Rubric(funcs=[turns]), max_turns=2)
        """,
    # Tools: the answer is in one of them.
    "looked_up": """
        SEEN = {f"k{n}": f"v{n}" for n in range(20)}

        def look_up(key: str) -> str:
            \"\"\"The value of a key.\"\"\"
            return SEEN[key]

        def right(completion, answer):
            return float(answer in completion[-1]["content"])

        def load_environment():
            rows = Dataset.from_list([{"question": k, "answer": v} for k, v in SEEN.items()])
            return vf.ToolEnv(tools=[look_up], dataset=rows, rubric=vf.Rubric(funcs=[right]), max_turns=4)
        """,
    "rewriting": """
        class Rewriting(vf.MultiTurnEnv):
            async def env_response(self, messages, state, **kwargs):
                return [{"role": "user", "content": "again"}]

            async def get_prompt_messages(self, state):
                messages = await super().get_prompt_messages(state)
                return messages if len(messages) < 2 else [messages[0], messages[-1]]

        def load_environment():
            rows = Dataset.from_list([{"question": str(n), "answer": ""} for n in range(20)])
            return Rewriting(dataset=rows, rubric=vf.Rubric(), max_turns=3)
        """,
    "grouped": """
        def together(completions) -> list:
            return [1.0 for _ in completions]

        def load_environment():
            rows = Dataset.from_list([{"question": str(n), "answer": ""} for n in range(20)])
            return vf.SingleTurnEnv(dataset=rows, rubric=vf.Rubric(funcs=[together]))
        """,
    "variables": """
        def seen(completion):
            return float(len([name for name in os.environ if name.startswith("SECRET")]))

        def load_environment():
            rows = Dataset.from_list([{"question": str(n), "answer": ""} for n in range(20)])
            return vf.SingleTurnEnv(dataset=rows, rubric=vf.Rubric(funcs=[seen]))
        """,
    "printing": """
        import sys

        def read(completion):
            print("a line of its own")
            return float(sys.stdin.read() == "")

        def load_environment():
            rows = Dataset.from_list([{"question": str(n), "answer": ""} for n in range(20)])
            return vf.SingleTurnEnv(dataset=rows, rubric=vf.Rubric(funcs=[read]))
        """,
}


def written(folder: Path) -> Path:
    """A folder with a module for each."""
    for name, source in SOURCES.items():
        (folder / f"{name}.py").write_text(HEAD + textwrap.dedent(source))
    return folder
