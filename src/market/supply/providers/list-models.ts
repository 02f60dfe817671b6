import type { Dialect } from '../../../base/domain/conversation.ts'
import { credentialHeader, type Endpoint } from '../../../base/domain/offer.ts'
import { sayRefusal } from '../../../base/domain/refusals.ts'
import { joined, type Said } from '../../../base/domain/said.ts'
import { SupplyError } from '../../../base/domain/supply-error.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { getJson } from '../../../wire/egress/get-json.ts'
import { askContexts, type ListedModel } from '../detection/ask-contexts.ts'

/** A model that a server lists. */
export interface ServedModel {
  readonly id: string
  /** Null: the server does not say. */
  readonly contextTokens: number | null
}

const TIMEOUT_MS = 10_000
/** OpenRouter lists hundreds of models with their descriptions. */
const BYTES_MAX = 10_000_000

/**
 * Asks a server for its models, in the form of its dialect. Null: servers of this kind do not list them. Throws SupplyError
 * `unreachable` that says what the server answered.
 */
export async function listServedModels(endpoint: Endpoint, speaks: Dialect): Promise<readonly ServedModel[] | null> {
  const form = modelLists[speaks]
  if (endpoint.credential !== undefined || form === null) return null
  const header = credentialHeader(endpoint)
  const headers = { ...(header && { [header[0]]: header[1] }), ...form.headers }
  const url = `${endpoint.baseUrl}/models${form.query}`
  const { status, body } = await getJson(url, { timeoutMs: TIMEOUT_MS, bytesMax: BYTES_MAX, headers }).catch(
    (error: NodeJS.ErrnoException) => {
      throw new SupplyError('unreachable', sayUnreachable(endpoint.baseUrl, error), 'base_url')
    },
  )
  const models = isJsonObject(body) ? body[form.field] : undefined
  if (status !== 200 || !Array.isArray(models)) throw refusedBy(endpoint.baseUrl, status, body)
  const listed = models.filter(isJsonObject).flatMap((model): ListedModel[] => {
    const id = form.idOf(model)
    return typeof id === 'string' ? [{ ...model, id }] : []
  })
  const asked = { baseUrl: endpoint.baseUrl, headers, timeoutMs: TIMEOUT_MS }
  const contexts = endpoint.kind === 'local' ? (await askContexts(asked, listed)).contexts : undefined
  return listed.map(model => ({
    id: model.id,
    contextTokens: contexts?.get(model.id) ?? tokens(model[form.contextField]),
  }))
}

/** How servers of a dialect list their models. */
export interface ModelListForm {
  /** Asks for the longest page: those of Anthropic have 20 models, those of Google 50, and 1,000 is the most. */
  readonly query: string
  readonly headers: Readonly<Record<string, string>>
  /** The field of the answer with the models. */
  readonly field: string
  /** The id that requests use. */
  readonly idOf: (model: JsonObject) => unknown
  /** Another id that requests may use. */
  readonly aliasOf: (model: JsonObject) => unknown
  /** The field of a model with its context. */
  readonly contextField: string
  /** How the address usually ends. */
  readonly version: string
}

const ofOpenAi: ModelListForm = {
  query: '',
  headers: {},
  field: 'data',
  idOf: ({ id }) => id,
  aliasOf: ({ id }) => id,
  contextField: 'context_length',
  version: '/v1',
}

/** Null: servers of the dialect have no list. */
export const modelLists: Readonly<Record<Dialect, ModelListForm | null>> = {
  chat: ofOpenAi,
  responses: ofOpenAi,
  messages: {
    ...ofOpenAi,
    query: '?limit=1000',
    headers: { 'anthropic-version': '2023-06-01' },
    // The list of Anthropic has no aliases: that of claude-haiku-4-5-20251001 is claude-haiku-4-5.
    aliasOf: ({ id }) => without(id, /-\d{8}$/),
    contextField: 'max_input_tokens',
  },
  gemini: {
    query: '?pageSize=1000',
    headers: {},
    field: 'models',
    idOf: ({ name }) => without(name, /^models\//),
    aliasOf: ({ name }) => name,
    contextField: 'inputTokenLimit',
    version: '/v1beta',
  },
  // Another host of AWS lists the models, with rights of its own.
  converse: null,
}

function without(text: unknown, part: RegExp): unknown {
  return typeof text === 'string' ? text.replace(part, '') : text
}

function tokens(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : null
}

function sayUnreachable(address: string, { code, message: error }: NodeJS.ErrnoException): Said {
  if (code === 'ENOTFOUND') return sayRefusal('refusal.server_name_unknown', { host: new URL(address).hostname })
  if (code === 'ECONNREFUSED') return sayRefusal('refusal.server_silent', { address })
  return sayRefusal('refusal.server_unreachable', { address, error })
}

function refusedBy(address: string, status: number, body: unknown): SupplyError {
  if (status === 401 || status === 403)
    return new SupplyError('unreachable', sayRefusal('refusal.server_refuses_key', { address, status }), 'api_key')
  const said = isJsonObject(body) && isJsonObject(body.error) ? body.error.message : undefined
  const noList = sayRefusal('refusal.server_without_list', { address, status })
  if (typeof said !== 'string') return new SupplyError('unreachable', noList, 'base_url')
  const answer = said.slice(0, 200).toWellFormed()
  return new SupplyError('unreachable', joined(noList, sayRefusal('refusal.server_says', { answer })), 'base_url')
}
