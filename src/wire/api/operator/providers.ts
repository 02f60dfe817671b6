import { z } from 'zod'
import { providerKinds } from '../../../base/domain/offer.ts'
import { providerSecrets } from '../../../base/domain/provider-secrets.ts'
import { reason } from '../hosters.ts'
import { parseStrictBody } from '../strict-body.ts'
import { shownServer } from './overview.ts'

const settings = z
  .record(z.string(), z.unknown())
  .describe('An entry of `endpoints` as in switchyard.yaml, without keys. Prices are decimal texts.')
const secretNames = z.enum(providerSecrets)
const usdPerMillion = z.number().nonnegative()
const twoPrices = z.object({ input_usd_per_million: usdPerMillion, output_usd_per_million: usdPerMillion })
const library = z
  .object({ name: z.string(), version: z.string(), date: z.string() })
  .describe('The library that list prices and limits are proposed from, and when it was published.')

export const operatorProviders = z
  .object({
    library,
    data: z.array(
      z.object({
        name: z.string(),
        title: z.string().nullable().describe('The vendor, where its address is known.'),
        origin: z
          .enum(['managed', 'file', 'found'])
          .describe('`file`: switchyard.yaml declares it, so it is changed there. `found`: it was detected.'),
        kind: z.enum(providerKinds),
        base_url: z.string(),
        is_enabled: z.boolean(),
        problem: z.string().nullable().describe('Why nothing of it is offered.'),
        version: z.int().nullable().describe('Null unless it is managed. Receipts name it.'),
        settings: settings.nullable().describe('Null unless it is managed.'),
        secrets: z.array(secretNames).describe('The keys that are stored. They are never shown.'),
        reason: z.string().nullable(),
        changed_at: z.string().nullable(),
        spent_this_month_usd: z
          .number()
          .describe('What it has charged since the month began (UTC), by `cost_per_million_usd`, else by the price.'),
        monthly_budget_usd: z.number().nullable().describe('Null: none.'),
        is_budget_spent: z.boolean().describe('It gets no requests until the month or a higher budget comes.'),
        proposed_models: z
          .array(z.object({ id: z.string(), entry: settings }))
          .describe('New models that its `model_rules` name and that wait for an operator.'),
        asked_at: z.string().nullable().describe('When its server was last asked for new models.'),
        ask_problem: z.string().nullable().describe('Why it did not answer.'),
        models: z.array(
          z.object({
            id: z.string(),
            upstream_model: z.string(),
            is_enabled: z.boolean(),
            weight: z.number().describe('A factor of its chance among offers that are as good. Usually 100.'),
            price: twoPrices,
            cost: twoPrices.nullable().describe('What the provider charges. Null: not declared.'),
            list_price: twoPrices
              .nullable()
              .describe(
                'What the library says that the provider charges, where it differs from `cost`. Nothing applies it.',
              ),
            server: shownServer.omit({ endpoint_id: true, name: true, provider: true, model: true }).nullable(),
          }),
        ),
      }),
    ),
  })
  .meta({ id: 'OperatorProviders' })
export type OperatorProviders = z.infer<typeof operatorProviders>

export const providerPresetList = z
  .object({
    library,
    data: z.array(
      z.object({
        id: z.string(),
        title: z.string(),
        settings: settings.describe('What an entry begins with. Capitals in the address are to be replaced.'),
        secrets: z.array(secretNames).describe('The keys that such a server may need.'),
      }),
    ),
  })
  .meta({ id: 'ProviderPresets' })
export type ProviderPresetList = z.infer<typeof providerPresetList>

export const servedModels = z
  .object({
    data: z
      .array(
        z.object({
          id: z.string().describe('The id at the server.'),
          entry: settings.describe(
            'The proposed entry of `models`, with the list price as price and cost where it is known.',
          ),
          has_price: z.boolean().describe('Without a price a model cannot be sold.'),
        }),
      )
      .nullable()
      .describe('Null: servers of this kind do not list their models.'),
  })
  .meta({ id: 'ServedModels' })
export type ServedModels = z.infer<typeof servedModels>

export const refreshedModels = z
  .object({
    applied: z.array(z.string()).describe('Sold from now on.'),
    proposed: z.array(z.string()).describe('Waiting for an operator.'),
  })
  .meta({ id: 'RefreshedModels' })
export type RefreshedModels = z.infer<typeof refreshedModels>

export const providerTrial = z
  .object({
    problem: z.string().nullable().describe('Null: the model answered.'),
    text: z.string().nullable(),
    input_tokens: z.int().nullable(),
    output_tokens: z.int().nullable(),
    total_ms: z.int(),
    cost_usd: z
      .number()
      .nullable()
      .describe('What the provider charges for it, by `cost_per_million_usd`, else by the price.'),
  })
  .meta({ id: 'ProviderTrial' })
export type ProviderTrial = z.infer<typeof providerTrial>

export const writtenProvider = z.object({ name: z.string(), version: z.int() }).meta({ id: 'WrittenProvider' })
export type WrittenProvider = z.infer<typeof writtenProvider>

// Bodies. Each `error` text completes the sentence "`param` must be ...".

const object = { error: 'a JSON object' }
const settingsBody = z.record(z.string(), z.unknown(), { error: 'an entry of `endpoints` as in switchyard.yaml' })
const secretText = { error: 'a text of 1 to 20000 characters' }
const secretsBody = z
  .strictObject(
    Object.fromEntries(
      secretNames.options.map(name => [
        name,
        z.string(secretText).min(1, secretText).max(20_000, secretText).optional(),
      ]),
    ) as Record<z.infer<typeof secretNames>, z.ZodOptional<z.ZodString>>,
    object,
  )
  .optional()
const versionText = 'the version that was read, a whole number'
const version = z.int({ error: versionText }).min(1, { error: versionText })
const modelId = z.string({ error: 'the id of a model of the provider' })

const newProvider = z.strictObject({ settings: settingsBody, secrets: secretsBody, reason }, object)
const changedProvider = newProvider.extend({ version })
const removedProvider = z.strictObject({ version, reason }, object)
const switchedProvider = z.strictObject(
  { is_enabled: z.boolean({ error: 'true or false' }), model: modelId.optional(), reason },
  object,
)
const nameText = 'the name of a managed provider'
const askedProvider = z.strictObject(
  { name: z.string({ error: nameText }).optional(), settings: settingsBody, secrets: secretsBody },
  object,
)
const refresh = z.strictObject({}, object)
const triedProvider = askedProvider.extend({ model: modelId })

// Each throws ApiError `invalid_json`, `missing_parameter` or `invalid_value`. Whoever gets the settings checks them.
export const parseNewProvider = (body: Buffer) => parseStrictBody(body, newProvider, 'a provider')
export const parseProviderChange = (body: Buffer) => parseStrictBody(body, changedProvider, 'a change of a provider')
export const parseProviderRemoval = (body: Buffer) => parseStrictBody(body, removedProvider, 'a removal of a provider')
export const parseProviderSwitch = (body: Buffer) => parseStrictBody(body, switchedProvider, 'a switch of a provider')
export const parseAskedProvider = (body: Buffer) => parseStrictBody(body, askedProvider, 'a server to ask')
export const parseModelRefresh = (body: Buffer) => parseStrictBody(body, refresh, 'a refresh of models')
export const parseTriedProvider = (body: Buffer) => parseStrictBody(body, triedProvider, 'a trial of a model')
