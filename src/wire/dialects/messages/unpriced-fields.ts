import { isJsonObject, type JsonObject, jsonText } from '../../../base/runtime/json-object.ts'

/**
 * Fields of a body that change what a request costs, run something elsewhere, or let another model answer:
 * servers on the internet, containers, threads, other tiers and regions.
 */
const unpricedFields = [
  ...['service_tier', 'speed', 'inference_geo', 'mcp_servers', 'container', 'thread', 'fallbacks', 'billing_policy'],
  ...['workspace_id', 'user_profile_id'],
]

/** Starts the first system block of Claude Code. Its text differs between sessions. */
const BILLING_HEADER = 'x-anthropic-billing-header:'

/**
 * The keys that these objects may have. Other keys could change what a request costs, or become a part of the prompt
 * that the hold does not cover, and Anthropic refuses them without the header of their beta.
 */
const settingKeys: readonly (readonly [field: string, keys: ReadonlySet<string>])[] = [
  ['output_config', new Set(['effort', 'format'])],
  ['thinking', new Set(['type', 'budget_tokens', 'display'])],
  ['metadata', new Set(['user_id'])],
]

/** Removes what has no price from a body, in place. Returns the names of the fields that were removed. */
export function dropUnpriced(body: JsonObject): string[] {
  const dropped = unpricedFields.filter(field => body[field] !== undefined && body[field] !== null)
  for (const field of unpricedFields) delete body[field]
  if (dropCompaction(body)) dropped.push('context_management.edits')
  for (const [field, keys] of settingKeys) dropped.push(...dropUnknownKeys(body, field, keys))
  return dropped
}

/** Returns the names of the removed keys, such as `output_config.task_budget`. */
function dropUnknownKeys(body: JsonObject, field: string, keys: ReadonlySet<string>): string[] {
  const setting = body[field]
  if (!isJsonObject(setting)) return []
  const given = Object.entries(setting)
  const known = given.filter(([key]) => keys.has(key))
  if (known.length === given.length) return []
  if (known.length === 0) delete body[field]
  else body[field] = Object.fromEntries(known)
  return given.filter(([key, value]) => !keys.has(key) && value !== null).map(([key]) => `${field}.${key}`)
}

/** Compaction is billed outside of the sums of the usage. Other edits of the context only shorten the prompt. */
function dropCompaction(body: JsonObject): boolean {
  const { context_management: management } = body
  if (!isJsonObject(management) || !Array.isArray(management.edits)) return false
  const edits = management.edits.filter(edit => !isJsonObject(edit) || !jsonText(edit.type).startsWith('compact'))
  if (edits.length === management.edits.length) return false
  if (edits.length === 0) delete body.context_management
  else body.context_management = { ...management, edits }
  return true
}

/**
 * Returns the system prompt without the billing header of Claude Code, which only Anthropic uses. Elsewhere it would
 * keep the prefix caches of servers from matching the next session.
 */
export function withoutBillingHeader(system: unknown): unknown {
  return Array.isArray(system) ? system.filter(block => !isBillingHeader(block)) : system
}

function isBillingHeader(block: unknown): boolean {
  return isJsonObject(block) && typeof block.text === 'string' && block.text.startsWith(BILLING_HEADER)
}
