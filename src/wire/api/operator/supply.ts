import { z } from 'zod'
import { features } from '../../../base/domain/chat-job.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import { hosterStates } from '../../../base/domain/hoster-state.ts'
import { memberRoles } from '../../../base/domain/member-role.ts'
import { MODEL_ID, modelIdText, UPSTREAM_MODEL_ID, upstreamModelIdText } from '../../../base/domain/model-id.ts'
import { parsePricePerMillion } from '../../../base/domain/money.ts'
import { email } from '../console-body.ts'
import { manifest } from '../hoster-manifest.ts'
import { verification } from '../hoster-verification.ts'
import { hosterName, ownHoster, reason } from '../hosters.ts'
import { madeInvite } from '../people.ts'
import { parseStrictBody } from '../strict-body.ts'
import { shownServer } from './overview.ts'

const usdPerMillion = z.number().nonnegative()
const prices = {
  input_usd_per_million: usdPerMillion,
  output_usd_per_million: usdPerMillion,
}

export const operatorModels = z
  .object({
    data: z.array(
      z.object({
        id: z.string(),
        offers: z.array(
          z.object({
            ...shownServer.omit({ model: true }).shape,
            upstream_model: z.string(),
            ...prices,
            has_more_prices: z
              .boolean()
              .describe('Some kinds of tokens, prompt lengths or hours have prices of their own.'),
            context_tokens: z.int(),
            max_output_tokens: z.int(),
            features: z.array(z.enum(features)),
            hoster_id: z
              .string()
              .nullable()
              .describe('Null for a server of the operator: its price is in the configuration.'),
            trust_score: z.number().nullable(),
          }),
        ),
      }),
    ),
  })
  .meta({ id: 'OperatorModels' })
export type OperatorModels = z.infer<typeof operatorModels>

export const pricesQuery = z.object({ model: z.string('must be the id of a model').max(256).optional() })

const hostedPrice = {
  model: z.string(),
  upstream_model: z.string(),
  version: z.int(),
  ...prices,
  cache_read_usd_per_million: usdPerMillion.nullable().describe('Null: the input price.'),
  cache_write_usd_per_million: usdPerMillion.nullable(),
  context_tokens: z.int(),
  max_output_tokens: z.int(),
  features: z.array(z.enum(features)),
}

export const priceVersions = z
  .object({
    data: z
      .array(
        z.object({
          hoster_id: z.string(),
          hoster: z.string(),
          ...hostedPrice,
          valid_from: z.string(),
          valid_until: z.string().nullable().describe('Null: the current version.'),
        }),
      )
      .max(200)
      .describe('The newest version first.'),
  })
  .meta({ id: 'OperatorPriceVersions' })
export type PriceVersions = z.infer<typeof priceVersions>

export const unapprovedModels = z
  .object({
    data: z
      .array(
        z.object({
          model: z.string(),
          state: z.enum(['waiting', 'refused']),
          reason: z.string().nullable().describe('Why it was refused.'),
          decided_at: z.string().nullable(),
          hosters: z.array(z.object({ id: z.string(), name: z.string(), is_active: z.boolean() })),
        }),
      )
      .describe('Model ids that hosters name and may not sell. Those that wait come first.'),
  })
  .meta({ id: 'UnapprovedModels' })
export type UnapprovedModels = z.infer<typeof unapprovedModels>

export const operatorHosters = z
  .object({
    data: z.array(
      z.object({
        id: z.string(),
        name: z.string(),
        state: z.enum(hosterStates),
        trust_score: z.number(),
        share: z.number().describe('The part of each charge that it earns, from 0 to 1.'),
        has_contract: z.boolean().describe('Lifts the limit of its trust score.'),
        base_url: z.string(),
        has_key: z.boolean(),
        created_at: z.string(),
        models: z.array(z.object(hostedPrice)),
      }),
    ),
  })
  .meta({ id: 'OperatorHosters' })
export type OperatorHosters = z.infer<typeof operatorHosters>

/** The answer of `GET hosters/{hoster_id}`. */
export const hosterReview = operatorHosters.shape.data.element
  .extend({
    transport: z.enum(['direct', 'agent']),
    active_since: z.string().nullable(),
    next_states: z.array(z.enum(hosterStates)).describe('What an operator may change the state to.'),
    state_changes: ownHoster.shape.state_changes,
    verification,
    manifest: manifest.nullable(),
    people: z.array(z.object({ email: z.string(), role: z.enum(memberRoles) })),
  })
  .meta({ id: 'HosterReview' })
export type HosterReview = z.infer<typeof hosterReview>

/** The answer of an invitation to a hoster. */
export const invitedHoster = madeInvite.extend({ hoster_id: z.string() }).meta({ id: 'InvitedHoster' })
/** @public The console imports it. */
export type InvitedHoster = z.infer<typeof invitedHoster>

// Bodies. Each `error` text completes the sentence "`param` must be ...".

const object = { error: 'a JSON object' }
const modelId = z.string({ error: modelIdText }).regex(MODEL_ID, { error: modelIdText })
const priceText = 'USD per million tokens with at most 6 decimals, as a number or as decimal text'
const price = z.union([z.number(), z.string()], { error: priceText })
const countText = 'a whole number above zero'
const count = z.int({ error: countText }).min(1, { error: countText }).max(2_147_483_647, { error: countText })
const featuresText = `a list of ${features.join(', ')}`

const priceChange = z.strictObject(
  {
    model: modelId,
    input_usd_per_million: price,
    output_usd_per_million: price,
    cache_read_usd_per_million: price.nullish(),
    cache_write_usd_per_million: price.nullish(),
    upstream_model: z
      .string({ error: upstreamModelIdText })
      .regex(UPSTREAM_MODEL_ID, { error: upstreamModelIdText })
      .optional(),
    context_tokens: count.optional(),
    max_output_tokens: count.optional(),
    features: z.array(z.enum(features, { error: featuresText }), { error: featuresText }).optional(),
  },
  object,
)
const operatorChoices = ['pending', 'verified', 'active', 'paused', 'suspended', 'retired'] as const
const stateText = `one of ${operatorChoices.join(', ')}`
const scoreText = 'a number from 0 to 1, or null for the earned score'
const hosterChange = z.strictObject(
  {
    state: z.enum(operatorChoices, { error: stateText }).optional(),
    reason: reason.nullish(),
    trust_score: z
      .number({ error: scoreText })
      .min(0, { error: scoreText })
      .max(1, { error: scoreText })
      .nullable()
      .optional(),
    has_contract: z.boolean({ error: 'true or false' }).optional(),
  },
  object,
)

const decisionText = 'approve or refuse'
const modelDecision = z.strictObject(
  { model: modelId, decision: z.enum(['approve', 'refuse'], { error: decisionText }), reason },
  object,
)

const newHoster = z.strictObject({ name: hosterName, email }, object)

/** Parses the name of a new hoster and the address of its owner. Throws like `parsePriceChange`. */
export function parseNewHoster(body: Buffer): { name: string; email: string } {
  return parseStrictBody(body, newHoster, 'an invitation of a hoster')
}

/** Parses a new price of a hoster's model. Throws ApiError `invalid_json`, `missing_parameter` or `invalid_value`. */
export function parsePriceChange(body: Buffer) {
  const order = parseStrictBody(body, priceChange, 'a price')
  type Field = keyof typeof order & `${string}_usd_per_million`
  const picoOf = (field: Field, value: string | number) => {
    const found = parsePricePerMillion(String(value))
    if (found !== undefined) return found
    throw new ApiError('invalid_value', { message: `"${field}" must be ${priceText}.`, param: field })
  }
  const pico = (field: Field) => {
    const value = order[field]
    return value === undefined || value === null ? undefined : picoOf(field, value)
  }
  return {
    modelId: order.model,
    price: {
      inputPicoPerToken: picoOf('input_usd_per_million', order.input_usd_per_million),
      outputPicoPerToken: picoOf('output_usd_per_million', order.output_usd_per_million),
      cacheReadPicoPerToken: pico('cache_read_usd_per_million'),
      cacheWritePicoPerToken: pico('cache_write_usd_per_million'),
    },
    upstreamModel: order.upstream_model,
    contextTokens: order.context_tokens,
    maxOutputTokens: order.max_output_tokens,
    features: order.features,
  }
}

/** Parses a decision about the id of hosters' models. Throws like `parsePriceChange`. */
export function parseModelDecision(body: Buffer) {
  const { model, decision, reason } = parseStrictBody(body, modelDecision, 'a decision about a model id')
  return { modelId: model, state: decision === 'approve' ? 'approved' : 'refused', reason } as const
}

/** Parses a change of a hoster. Throws like `parsePriceChange`. */
export function parseHosterChange(body: Buffer) {
  const change = parseStrictBody(body, hosterChange, 'a change of a hoster')
  const { state, trust_score: trustScore, has_contract: hasContract, reason } = change
  return { state, trustScore, hasContract, reason: reason ?? 'No reason given.' }
}
