import {
  type ChatJob,
  type OnInsufficient,
  type Preference,
  preferences,
  type RoutingConstraints,
  type ServiceTier,
} from './chat-job.ts'

/**
 * The routing constraints as clients write them: fields of a body, headers, or the defaults of a key. Null means the
 * same as leaving a field out.
 */
export interface RoutingFields {
  readonly tier?: ServiceTier | null | undefined
  readonly privacy_mode?: boolean | null | undefined
  readonly trusted_only?: boolean | null | undefined
  readonly max_latency_ms?: number | null | undefined
  readonly fallback_models?: readonly string[] | null | undefined
  /** UUIDs in any letter case. */
  readonly allow_hosters?: readonly string[] | null | undefined
  readonly deny_hosters?: readonly string[] | null | undefined
  readonly max_cost_usd?: number | null | undefined
  readonly max_input_usd_per_million?: number | null | undefined
  readonly max_output_usd_per_million?: number | null | undefined
  readonly on_insufficient?: OnInsufficient | null | undefined
  readonly dry_run?: boolean | null | undefined
}

/** The routing fields of a key. Only fields that are set are stored. */
export type KeyDefaults = Omit<RoutingFields, 'dry_run'>

/** The part of a ChatJob that routing fields set. Bodies, headers and keys have one each. */
export type Routing = Pick<ChatJob, 'constraints' | 'onInsufficient' | 'maxCostNanos' | 'dryRun' | 'openPreferences'>

/**
 * Returns the constraints of checked fields, with defaults for the others.
 *
 * @param onInsufficient what applies when the fields do not say
 */
export function routingOf(fields: RoutingFields, onInsufficient: OnInsufficient = 'refuse'): Routing {
  return {
    constraints: constraintsOf(fields),
    onInsufficient: fields.on_insufficient ?? onInsufficient,
    maxCostNanos: fields.max_cost_usd ? floorUsd(fields.max_cost_usd, 9) : null,
    dryRun: fields.dry_run ?? false,
    openPreferences: openPreferencesOf(fields),
  }
}

function constraintsOf(fields: RoutingFields): RoutingConstraints {
  return {
    serviceTier: fields.tier ?? 'balanced',
    privacyMode: fields.privacy_mode ?? false,
    trustedOnly: fields.trusted_only ?? false,
    maxLatencyMs: fields.max_latency_ms ?? null,
    fallbackModels: fields.fallback_models ?? noModels,
    allowHosters: fields.allow_hosters ? lowerCaseSet(fields.allow_hosters) : null,
    denyHosters: fields.deny_hosters ? lowerCaseSet(fields.deny_hosters) : noHosters,
    // A millionth of a USD per million tokens is a picodollar per token.
    ...(fields.max_input_usd_per_million && { maxInputPicoPerToken: floorUsd(fields.max_input_usd_per_million, 6) }),
    ...(fields.max_output_usd_per_million && { maxOutputPicoPerToken: floorUsd(fields.max_output_usd_per_million, 6) }),
  }
}

const noModels: readonly string[] = []
const noHosters: ReadonlySet<string> = new Set()
const allPreferences: ReadonlySet<Preference> = new Set(preferences)

/** Most requests set no preference and share one set. */
function openPreferencesOf(fields: RoutingFields): ReadonlySet<Preference> {
  const { tier, fallback_models, on_insufficient } = fields
  if ((tier ?? fallback_models ?? on_insufficient ?? null) === null) return allPreferences
  return new Set(preferences.filter(name => (fields[name] ?? null) === null))
}

/**
 * Returns an amount in units of its last decimal: nano-USD for 9 decimals, micro-USD for 6. Rounds further decimals
 * down, so that a cap is never raised.
 */
function floorUsd(amountUsd: number, decimals: 6 | 9): bigint {
  const nearest = amountUsd.toFixed(decimals)
  const units = BigInt(nearest.replace('.', ''))
  return Number(nearest) > amountUsd ? units - 1n : units
}

function lowerCaseSet(values: readonly string[]): Set<string> {
  return new Set(values.map(value => value.toLowerCase()))
}
