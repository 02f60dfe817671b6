import { isJsonObject, type JsonObject, jsonText } from '../../runtime/json-object.ts'

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

/** Removes what has no price from a body, in place. Returns the names of the fields that were removed. */
export function dropUnpriced(body: JsonObject): string[] {
  const dropped = unpricedFields.filter(field => body[field] !== undefined && body[field] !== null)
  for (const field of unpricedFields) delete body[field]
  return dropCompaction(body) ? [...dropped, 'context_management.edits'] : dropped
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
