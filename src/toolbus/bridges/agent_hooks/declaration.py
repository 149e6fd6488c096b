"""A host declaration, 7.7, as the configuration of a component; it needs the SDK.

The SDK's loader reads and refuses documents; the composition and the records are ours.
"""
# ruff: noqa: SLF001 - the SDK's registry has no public look-up (agent-hooks-sdk 0.1.0b3)

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from toolbus.bridges.agent_hooks.composition import Composition
from toolbus.bridges.agent_hooks.emitter import HostOptions
from toolbus.bridges.agent_hooks.seams import JCS, BoundInterceptor, IdentityProvider, Seam
from toolbus.settings.extras import needs_extra

try:
    import agent_hooks
except ImportError:
    agent_hooks = None  # The documentation imports this module without the extra.

if TYPE_CHECKING:
    from agent_hooks import HostRegistry, ResolvedBinding, ResolvedDeclaration


def declared_options(document: Any, registry: HostRegistry) -> HostOptions:
    """Return the configuration of *document*: a dict, JSON text or a path.

    Raises the SDK's `DeclarationError` for a document that *registry* cannot honour.
    """
    if agent_hooks is None:
        purpose = "a host declaration needs agent-hooks-sdk"
        raise ImportError(needs_extra(purpose, "agent-hooks"), name="agent_hooks")
    declarations = agent_hooks.HostDeclaration
    if isinstance(document, os.PathLike):
        declaration = declarations.from_path(document)
    elif isinstance(document, str):
        declaration = declarations.from_json(document)
    else:
        declaration = declarations.from_value(document)
    resolved = registry.resolve(declaration)
    configuration = resolved.configuration
    return HostOptions(
        interceptors=tuple([_bound(each, resolved, registry) for each in resolved.bindings]),
        composition=Composition.read(configuration["composition"]),
        mode=configuration["mode"],
        seam=_seam(resolved, registry),
        max_records=configuration["records"]["max_buffered"],
        declaration=resolved.version,
    )


def _seam(resolved: ResolvedDeclaration, registry: HostRegistry) -> Seam:
    approval, name = resolved.configuration["approval"], resolved.identity_provider
    resolver, redactor = approval["resolver"], approval["redactor"]
    identity = IdentityProvider() if name == JCS else None
    if name not in {JCS, None}:
        identity = IdentityProvider(name, registry._identity_fn(name))
    return Seam(
        registry._approval_resolver_ref(resolver) if resolver else None,
        registry._redactor_fn(redactor) if redactor else None,
        _seconds(resolved.configuration["timeouts"]["approval_resolver_ms"]),
        identity,
    )


def _bound(
    binding: ResolvedBinding, resolved: ResolvedDeclaration, registry: HostRegistry
) -> BoundInterceptor:
    """Return the interceptor that the registered code makes of *binding*, 7.7.5."""
    points = frozenset([point.value for point in binding.at])
    timeout = _seconds(binding.timeout_ms)
    context = agent_hooks.BindingContext(
        id=binding.id,
        kind=binding.kind,
        at=binding.at,
        timeout=timeout,
        host=resolved.host,
        declaration_version=resolved.version,
    )
    problem = "expected an object with a method `intercept(context)`"
    try:
        interceptor = registry._kind_resolver(binding.kind)(binding.config, context)
    except Exception as error:  # noqa: BLE001 - it refuses the document, whatever it raises
        interceptor, problem = None, str(error) or type(error).__name__
    if not callable(getattr(interceptor, "intercept", None)):
        number = [each.id for each in resolved.bindings].index(binding.id)
        detail = f"binding {binding.id!r}: {problem}"
        finding = agent_hooks.Finding(f"/bindings/{number}", detail)
        raise agent_hooks.DeclarationError("binding_rejected", finding)
    return BoundInterceptor(interceptor, binding.id, points, timeout)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
