"""`holdfast serve`: the gateway for any client and four provider APIs."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import click

from holdfast.cli.repair_words import repair_option, sentence
from holdfast.cli.setup import use_configured_facts
from holdfast.cli.tables import printable
from holdfast.config import Config, inert, load_config
from holdfast.doctor import subscription_policy
from holdfast.engine.passage import Switch
from holdfast.gateway import ACCESS_KEY, ADMIN_TOKEN, Gateway, GatewayRequest, RefusedRequest, serve
from holdfast.report import worth_saying
from holdfast.serving import address_of, listen
from holdfast.store import is_subscription
from holdfast.upstream import shown_path
from holdfast.wording import counted


@click.command()
@click.option("--host", metavar="HOST", help="Address to listen on (gateway.host, 127.0.0.1).")
@click.option(
    "--port",
    metavar="PORT",
    type=click.IntRange(0, 65_535),
    help="Port to listen on; 0 takes a free one (gateway.port, 8788).",
)
@repair_option
@click.option("-v", "--verbose", is_flag=True, help="A line for each request.")
def command(host: str | None, port: int | None, repair: str | None, verbose: bool) -> None:
    """Serve any client: a gateway for Anthropic Messages, OpenAI Chat and Responses, and Gemini.

    Point a client's base URL at it and everything works as before, with the provider's cache hit more often. What is
    sent goes to the providers, or to other servers that [upstream] of holdfast.toml names, with the client's own key,
    which is never stored.

    \b
    Examples:
      holdfast serve
      holdfast serve --port 0 --verbose
      holdfast serve --repair values
      HOLDFAST_UPSTREAM_ANTHROPIC=http://127.0.0.1:8089 holdfast serve
    \b
    While it runs:
      ANTHROPIC_BASE_URL=http://127.0.0.1:8788 claude
      kill -USR2 PID    (off: every request is relayed as it is; again: on)
      curl localhost:8788/healthz
      holdfast sessions
    """
    use_configured_facts()
    config = load_config({"gateway.host": host, "gateway.port": port, "cache.repair": repair})
    chosen = config.settings.gateway
    address = chosen.host.removeprefix("[").removesuffix("]")
    switch = Switch.from_environment()
    with switch.on_signal(), listen(address, chosen.port) as listener:
        gateway = Gateway(
            config,
            host=address,
            on_call=(lambda call: _tell(line(call))) if verbose else None,
            on_refused=(lambda refused: _tell(refusal(refused))) if verbose else None,
            switch=switch,
        )
        text = introduction(config, address_of(listener), needs_key=gateway.needs_key, stored=gateway.store is not None)
        if gateway.store is not None:
            text += f"  Kept: {gateway.retention.sentence(gateway.store, time.time())}\n"
        if without_effect := inert.warning(config, "gateway"):
            text += f"  {without_effect}\n"
        if switch.off:
            text += f"  {_switched(True)}\n"
        news = _RepairNews(gateway, config.settings.cache.repair)
        try:
            serve(
                config, gateway, listener, lambda: _begin(gateway, text), lambda off: _tell(_switched(off)), news.tick
            )
        finally:
            news.end()


class _RepairNews:
    """Prints the savings of repairs once they are significant, and again at the end if they have grown."""

    FEW = 5
    """Requests before anything is printed: the share of fewer is not significant."""

    def __init__(self, gateway: Gateway, level: str) -> None:
        self._gateway, self._level = gateway, level
        self._looked, self._told = 0, ""

    def tick(self) -> None:
        totals = self._gateway.engine.repairs_save
        if self._told or totals.requests in (self._looked, *range(self.FEW)):
            return
        self._looked = totals.requests
        self._say()

    def end(self) -> None:
        self._say()

    def _say(self) -> None:
        totals = self._gateway.engine.repairs_save
        savings = worth_saying(totals.saves, totals.exact, totals.cost, self._level)
        if savings is not None and (text := sentence(savings)) != self._told:
            _tell(text)
            self._told = text


def _begin(gateway: Gateway, text: str) -> None:
    click.echo(text)
    if gateway.store is not None:
        gateway.retention.announced(gateway.store, time.time())


def _switched(off: bool) -> str:
    if off:
        return "Holdfast is OFF: requests are relayed as they come, nothing is stored of them; SIGUSR2 turns it on."
    return "Holdfast is on: requests are planned; SIGUSR2 turns it off."


def introduction(config: Config, address: str, *, needs_key: bool, stored: bool = True) -> str:
    """Return the introduction; programs read the address from its first line."""
    base = f"{address}/k/KEY" if needs_key else address
    lines = [
        f"listening on {address}",
        "",
        f"  export ANTHROPIC_BASE_URL={base}",
        f"  export OPENAI_BASE_URL={base}/v1",
        f"  export GOOGLE_GEMINI_BASE_URL={base}",
        "",
    ]
    if needs_key:
        lines += [
            f"  KEY is in {config.home / ACCESS_KEY}; clients that can, send it as the header x-holdfast-key.",
        ]
    lines += [f"  Admin token: {config.home / ADMIN_TOKEN}", f"  Memory: {_memory(config, stored)}"]
    lines += [f"  Subscriptions: {subscription_policy(config)}.", "  Ctrl-C ends it.", ""]
    return "\n".join(lines)


def _memory(config: Config, stored: bool) -> str:
    """Describe which clients get memory and of which tenant."""
    on = [agent for agent in ("", *config.agents) if config.for_agent(agent).memory.inject]
    if not on:
        return "given to no client (memory.inject)."
    if not stored:
        return "given to no client, for nothing is stored."
    memory = config.for_agent(on[0]).memory
    entries = "what `holdfast memory list` shows" if memory.inject_as == "local" else "entries of their own tenant"
    which = f"clients of {counted(len(memory.inject_tenants), 'tenant')}" if memory.inject_tenants else "all clients"
    if "" not in on:
        which += f" that call themselves {' or '.join(on)}"
    return f"{which} are given {entries} (memory.inject)."


def _tell(text: str) -> None:
    try:
        click.echo(printable(text))
    except OSError:
        """Nobody reads any more; the clients are still served."""


def line(call: GatewayRequest) -> str:
    """One request: when, where to, what became of it. The query and the upstream's own part of the path are left out:
    both may hold a key."""
    at = _clock(call.started)
    status = "left" if call.left else str(call.status or "-")
    parts = [at, status, f"{call.method} {call.route.upstream.name} {_path(call)}"]
    passage = call.passage
    if call.relayed:
        parts.append("relayed: off")
    if passage is None:
        return "  ".join(parts)
    prepared = passage.prepared
    if prepared is not None and (verdict := prepared.verdict) is not None:
        used = verdict.usage
        parts.append(f"read {used.read:,}  written {used.written:,}  input {used.input:,}")
    elif prepared is not None and (used_ := prepared.estimated) is not None:
        parts.append(f"read {used_.read:,}  written {used_.written:,}  input {used_.input:,}  cut, estimated")
    if is_subscription(passage.lane.tenant):
        parts.append("subscription, observed" if passage.lane.observed else "subscription")
    if passage.bypass is not None:
        parts.append(f"bypassed: {passage.bypass}")
    if passage.call is not None:
        parts.append(passage.call)
    return "  ".join(parts)


def _path(call: GatewayRequest) -> str:
    return shown_path(call.route.path, call.route.upstream.base)


def refusal(refused: RefusedRequest) -> str:
    """A request that no provider got: when, what was asked for, and why not. Often the client has a wrong address."""
    hint = "; check the client's base address" if refused.status == 404 else ""
    line = f"{_clock(refused.at)}  {refused.status}  {refused.method} {refused.path}"
    return f"{line}  refused ({refused.reason}): {refused.message.rstrip('.')}{hint}"


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M:%S")
