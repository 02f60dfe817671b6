import { t } from '@lingui/core/macro'
import type { LowerRankReason } from '#api/activity.ts'
import type { ExclusionReason } from '../../../../src/base/domain/handoff.ts'

/** Why a server was left out of a request, or stood behind the first one: `reason` of a receipt, in words. */
const words = {
  context_too_small: t`the prompt is too long for it`,
  feature_missing: t`it lacks a feature that the request uses`,
  max_input_usd_per_million: t`its input costs more than the request allows`,
  max_output_usd_per_million: t`its output costs more than the request allows`,
  privacy_mode: t`the request may not go to clouds`,
  trusted_only: t`it is not trusted enough`,
  max_latency_ms: t`it would take longer than the request allows`,
  deny_hosters: t`the request excludes this hoster`,
  allow_hosters: t`the request allows other hosters only`,
  max_cost_usd: t`it would cost more than the request allows`,
  budget_spent: t`the operator's budget for it is used up`,
  endpoint_ejected: t`it failed too often and is left out for a while`,
  later_model: t`its model comes later in the request`,
  other_model: t`another model suited the request better`,
  newcomer: t`it is new, and gets only some requests`,
  shorter_output: t`its answers are shorter`,
  cloud_comes_last: t`other servers of a similar price come before clouds`,
  recent_failures: t`it failed a short time ago`,
  held_back: t`it was busy, or had just come back`,
  prompt_cache_elsewhere: t`the first server remembers this conversation`,
  more_expensive: t`it costs more`,
  slower: t`it costs the same and is not faster`,
  slower_or_busier: t`it is slower or busier`,
  drawn_later: t`the order is partly random, by price, speed and trust`,
} satisfies Record<ExclusionReason | LowerRankReason, string>

/** By the reason in the API, which newer gateways may extend. */
export const reasonWords: Readonly<Record<string, string>> = words
