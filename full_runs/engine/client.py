"""How does one ask a vLLM server: tokens, a pause, new weights, their version?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self, final

import aiohttp

from full_runs.engine.answer import Answer, read_answer
from full_runs.engine.capability import GENERATE, check_paths
from full_runs.engine.sampling import Sampling

KeysAtPush = Literal["keep", "recompute"]
KEPT_S: Final = 1.0
"""A connection that was idle for so long is not used again. A server closes it in the end (vLLM's after 5 s),
and one that is closed just as a request is written would make a healthy engine look dead."""


class EngineError(Exception):
    """The engine answered, and refused or failed."""


class EngineGoneError(EngineError):
    """The engine does not answer any more."""


@final
class EngineClient:
    """One server.

    Args:
        url: such as `http://127.0.0.1:8001`.
        api_key: sent as a bearer token if given.
        timeout_s: of a control request; a generation may take as long as its caller waits.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout_s: float = 120.0) -> None:
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        # The default limit of 100 would be a hidden one on concurrency.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_S),
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._session.close()

    async def check(self) -> None:
        """Raise ValueError, by name, if the server lacks a path that a run needs."""
        schema = await self._ask("GET", "/openapi.json")
        check_paths(schema["paths"], self.url)

    async def most_tokens(self) -> int:
        """Prompt and response together, as it was started (`--max-model-len`); asks for the key, if any."""
        (model,) = (await self._ask("GET", "/v1/models"))["data"]
        return int(model["max_model_len"])

    async def settings(self) -> dict[str, str]:
        """How it was started, in so far as a run depends on it."""
        said, *_ = await self._workers("settings")
        return dict(said)

    async def parameters(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what its first worker holds, by the engine's names."""
        shapes, *_ = await self._workers("parameters")
        return {name: tuple(shape) for name, shape in shapes.items()}

    async def generate(
        self,
        token_ids: Sequence[int],
        *,
        sampling: Sampling,
        max_tokens: int,
        stop_token_ids: tuple[int, ...] = (),
        seed: int | None = None,
    ) -> Answer:
        """Continue `token_ids` until a stop token or `max_tokens`.

        Raises:
            EngineGoneError: the connection broke before the answer was there.
            EngineError: the engine refused.
            ValueError: it answered without a log-prob or a version for every token.
        """
        params = sampling.request(max_tokens=max_tokens, stop_token_ids=stop_token_ids, seed=seed)
        body = {"token_ids": list(token_ids), "sampling_params": params}
        reply = await self._ask("POST", GENERATE, json=body, timeout_s=None)
        return read_answer(reply["choices"][0], asked_tokens=max_tokens)

    async def pause(self) -> None:
        """Requests stay where they are, and no token is made until `resume`."""
        await self._ask("POST", "/pause", params={"mode": "keep", "clear_cache": "false"})

    async def resume(self) -> None:
        await self._ask("POST", "/resume")

    async def take_weights(self, folder: str) -> list[dict[str, str]]:
        """Take the weights of a folder that the *server* can read; digests of what each worker took."""
        return list(await self._workers("take_weights", folder))

    async def check_held(self) -> int:
        """How many tensors each worker holds as it took them, to the last bit; the least over workers.

        Raises:
            ValueError: naming those that one does not.
        """
        found = await self._workers("compared_weights")
        if wrong := sorted({name for _, names in found for name in names}):
            raise ValueError(f"{self.url} holds other weights than it took: {', '.join(wrong)}")
        return min(int(same) for same, _ in found)

    async def watch_weights(self) -> None:
        """A transfer of weights follows, which each worker looks at."""
        await self._workers("watch_weights")

    async def join_transfer(self, told: Mapping[str, Any]) -> None:
        """Meet the sender where it says it waits; it may take as long as the sender's own patience."""
        await self._ask("POST", "/init_weight_transfer_engine", json={"init_info": told}, timeout_s=None)

    async def begin_update(self) -> None:
        """What follows are weights in the layout of a checkpoint."""
        await self._ask("POST", "/start_weight_update")

    async def update_weights(self, update: Mapping[str, Any]) -> None:
        """Receive these tensors, in their order; it lasts until the last one is there."""
        await self._ask("POST", "/update_weights", json={"update_info": update}, timeout_s=None)

    async def finish_update(self, version: int) -> None:
        """Load what is left; tokens from now on are by the weights of `version`."""
        await self._ask("POST", "/finish_weight_update", json={"weight_version": str(version)})

    async def taken_weights(self) -> list[dict[str, str]]:
        """Digests of what each worker was given since `watch_weights`."""
        return list(await self._workers("taken_weights"))

    async def leave_transfer(self) -> None:
        """No sender is waited for any more."""
        await self._ask("POST", "/shutdown_weight_transfer_engine")

    async def _workers(self, method: str, *words: str) -> list[Any]:
        """What each worker of the engine returns."""
        body = {"method": method, "args": list(words)}
        return list((await self._ask("POST", "/collective_rpc", json=body))["results"])

    async def forget_keys(self) -> None:
        """Throw away all keys and values: running requests compute their prefix again."""
        reply = await self._ask("POST", "/reset_prefix_cache", params={"reset_running_requests": "true"})
        if not reply["success"]:
            raise EngineError(f"{self.url} did not throw away its keys and values")

    async def set_version(self, version: int) -> None:
        """Tokens from now on are by the weights of `version`."""
        await self._ask("POST", "/update_weight_version", json={"new_version": str(version)})

    async def version(self) -> str:
        """What the engine calls its weights; `default` until it was told."""
        return str((await self._ask("GET", "/weight_info"))["weight_version"])

    async def is_healthy(self) -> bool:
        try:
            await self._ask("GET", "/health", timeout_s=30.0)
        except EngineError:
            return False
        return True

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        json: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        timeout_s: float | None = -1.0,
    ) -> Any:
        total = self._timeout_s if timeout_s == -1.0 else timeout_s
        try:
            async with self._session.request(
                method, self.url + path, json=json, params=params, timeout=aiohttp.ClientTimeout(total=total)
            ) as reply:
                if reply.status != 200:
                    said = " ".join((await reply.text()).split())[:500]
                    raise EngineError(f"{self.url}{path} answered {reply.status}: {said}")
                return await reply.json() if reply.content_type == "application/json" else None
        except (aiohttp.ClientError, TimeoutError, ConnectionError, RuntimeError) as gone:
            # RuntimeError: the session was closed, since another engine stands in its place.
            raise EngineGoneError(f"{self.url}{path} does not answer: {gone!r}") from gone
