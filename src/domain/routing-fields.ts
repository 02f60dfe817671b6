import {
  type ChatJob,
  type OnInsufficient,
  type Preference,
  preferences,
  type RoutingConstraints,
  type ServiceTier,
} from './chat-job.ts'
import { type Nanos, parseUsd } from './money.ts'

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
    maxCostNanos: fields.max_cost_usd ? floorToNanos(fields.max_cost_usd) : null,
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

/** Rounds an amount with more than nine decimals down, so that a cap is never raised. */
function floorToNanos(amountUsd: number): Nanos {
  const nearest = amountUsd.toFixed(9)
  const nanos = parseUsd(nearest)!
  return Number(nearest) > amountUsd ? nanos - 1n : nanos
}

function lowerCaseSet(values: readonly string[]): Set<string> {
  return new Set(values.map(value => value.toLowerCase()))
}
