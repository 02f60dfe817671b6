import type { RoutingFields } from '../../base/domain/chat-job.ts'
import { elementAt } from '../../base/runtime/collections.ts'
import { routingBounds, routingSchemas } from '../dialects/routing-schemas.ts'

/** How a routing field is written as text: in a header, or on the command line. */
interface TextForm {
  readonly read: (text: string) => unknown
  /** Completes the sentence "the value must be ..." where the schema describes JSON. */
  readonly allowed?: string
}

const word: TextForm = { read: text => text }
const flag: TextForm = { read: text => (text === 'true' ? true : text === 'false' ? false : text) }
// With an exponent too: JavaScript writes 0.0000001 as 1e-7.
const number: TextForm = { read: text => (/^\d{1,10}(\.\d{1,20})?(e[+-]?\d{1,2})?$/i.test(text) ? Number(text) : text) }
const listOf = (max: number, items: string): TextForm => ({
  read: text => text.split(',').map(item => item.trim()),
  allowed: `1 to ${max} ${items}, separated by commas`,
})
const hosters = listOf(routingBounds.hosters, 'hoster UUIDs')

const forms: Record<keyof RoutingFields, TextForm> = {
  tier: word,
  privacy_mode: flag,
  trusted_only: flag,
  max_latency_ms: number,
  fallback_models: listOf(routingBounds.fallbackModels, 'model ids'),
  allow_hosters: hosters,
  deny_hosters: hosters,
  max_cost_usd: number,
  max_input_usd_per_million: number,
  max_output_usd_per_million: number,
  on_insufficient: word,
  dry_run: flag,
}

export const routingFieldNames = Object.keys(forms) as (keyof RoutingFields)[]

/** Parses the text of a routing field. `problem` completes the sentence "the value must be ...". */
export function parseRoutingText(
  name: keyof RoutingFields,
  text: string,
): { readonly value: RoutingFields[keyof RoutingFields] } | { readonly problem: string } {
  const { read, allowed } = forms[name]
  const result = routingSchemas[name].safeParse(read(text))
  return result.success ? { value: result.data } : { problem: allowed ?? elementAt(result.error.issues, 0).message }
}
