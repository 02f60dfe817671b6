import type { ChatJob, ConstraintName, ConstraintSource, Preference, Routing, RoutingConstraints } from './chat-job.ts'

/**
 * Adds the constraints of a header or a key to a job. Of two values of a constraint the stricter holds: the job admits
 * an offer only if both did before. Of two values of a preference, the one of the job holds, so add what is nearest to
 * the request first.
 */
export function addRouting(job: ChatJob, added: Routing, source: ConstraintSource): ChatJob {
  const { constraints: own, openPreferences: open } = job
  const more = added.constraints
  const isTaken = (name: Preference) => open.has(name) && !added.openPreferences.has(name)
  const maxInput = smaller(own.maxInputPicoPerToken ?? null, more.maxInputPicoPerToken ?? null)
  const maxOutput = smaller(own.maxOutputPicoPerToken ?? null, more.maxOutputPicoPerToken ?? null)
  const constraints: RoutingConstraints = {
    serviceTier: isTaken('tier') ? more.serviceTier : own.serviceTier,
    privacyMode: own.privacyMode || more.privacyMode,
    trustedOnly: own.trustedOnly || more.trustedOnly,
    maxLatencyMs: smaller(own.maxLatencyMs, more.maxLatencyMs),
    fallbackModels: isTaken('fallback_models') ? more.fallbackModels : own.fallbackModels,
    allowHosters: common(own.allowHosters, more.allowHosters),
    denyHosters: more.denyHosters.isSubsetOf(own.denyHosters)
      ? own.denyHosters
      : own.denyHosters.union(more.denyHosters),
    ...(maxInput !== null && { maxInputPicoPerToken: maxInput }),
    ...(maxOutput !== null && { maxOutputPicoPerToken: maxOutput }),
  }
  const maxCostNanos = smaller(job.maxCostNanos, added.maxCostNanos)
  const changed: Record<ConstraintName, boolean> = {
    tier: isTaken('tier'),
    privacy_mode: constraints.privacyMode !== own.privacyMode,
    trusted_only: constraints.trustedOnly !== own.trustedOnly,
    max_latency_ms: constraints.maxLatencyMs !== own.maxLatencyMs,
    fallback_models: isTaken('fallback_models'),
    allow_hosters: constraints.allowHosters !== own.allowHosters,
    deny_hosters: constraints.denyHosters !== own.denyHosters,
    max_cost_usd: maxCostNanos !== job.maxCostNanos,
    max_input_usd_per_million: constraints.maxInputPicoPerToken !== own.maxInputPicoPerToken,
    max_output_usd_per_million: constraints.maxOutputPicoPerToken !== own.maxOutputPicoPerToken,
  }
  const names = (Object.keys(changed) as ConstraintName[]).filter(name => changed[name])
  return {
    ...job,
    constraints,
    maxCostNanos,
    onInsufficient: isTaken('on_insufficient') ? added.onInsufficient : job.onInsufficient,
    dryRun: job.dryRun || added.dryRun,
    openPreferences: open.intersection(added.openPreferences),
    constraintSources: { ...job.constraintSources, ...Object.fromEntries(names.map(name => [name, source])) },
  }
}

function smaller<T extends number | bigint>(a: T | null, b: T | null): T | null {
  if (a === null || b === null) return a ?? b
  return b < a ? b : a
}

/** Returns `own` itself when it is the stricter list. */
function common(own: ReadonlySet<string> | null, more: ReadonlySet<string> | null): ReadonlySet<string> | null {
  if (own === null || more === null) return own ?? more
  return own.isSubsetOf(more) ? own : own.intersection(more)
}
