import type { Dialect } from '../../../base/domain/conversation.ts'
import { credentialHeader, type Endpoint } from '../../../base/domain/offer.ts'
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
export async function listServedModels(
  endpoint: Pick<Endpoint, 'kind' | 'baseUrl' | 'apiKey' | 'credential' | 'dialect'>,
  speaks: Dialect,
): Promise<readonly ServedModel[] | null> {
  if (endpoint.credential !== undefined || speaks === 'converse') return null
  const header = credentialHeader({ ...endpoint } as Endpoint)
  const headers = { ...(header && { [header[0]]: header[1] }), ...lists[speaks].headers }
  const url = `${endpoint.baseUrl}/models${lists[speaks].query}`
  const { status, body } = await getJson(url, { timeoutMs: TIMEOUT_MS, bytesMax: BYTES_MAX, headers }).catch(
    (error: Error) => {
      throw new SupplyError('unreachable', `${endpoint.baseUrl} cannot be reached: ${error.message}.`)
    },
  )
  const listed = isJsonObject(body) ? lists[speaks].read(body) : undefined
  if (status !== 200 || listed === undefined)
    throw new SupplyError('unreachable', problemText(endpoint.baseUrl, status, body))
  if (endpoint.kind !== 'local') return listed.map(({ id, contextTokens }) => ({ id, contextTokens }))
  const asked = { baseUrl: endpoint.baseUrl, headers, timeoutMs: TIMEOUT_MS }
  const { contexts } = await askContexts(
    asked,
    listed.map(({ entry, id }): ListedModel => ({ ...entry, id })),
  )
  return listed.map(({ id, contextTokens }) => ({ id, contextTokens: contexts.get(id) ?? contextTokens }))
}

interface Listed extends ServedModel {
  readonly entry: JsonObject
}

interface ListForm {
  readonly query: string
  readonly headers: Readonly<Record<string, string>>
  read(body: JsonObject): readonly Listed[] | undefined
}

const openAiList: ListForm = {
  query: '',
  headers: {},
  read: ({ data }) =>
    objectsIn(data)?.flatMap(entry =>
      typeof entry.id === 'string' ? [{ id: entry.id, contextTokens: tokens(entry.context_length), entry }] : [],
    ),
}

const lists: Readonly<Record<Exclude<Dialect, 'converse'>, ListForm>> = {
  chat: openAiList,
  responses: openAiList,
  messages: {
    ...openAiList,
    query: '?limit=1000',
    headers: { 'anthropic-version': '2023-06-01' },
    read: ({ data }) =>
      objectsIn(data)?.flatMap(entry =>
        typeof entry.id === 'string' ? [{ id: entry.id, contextTokens: tokens(entry.max_input_tokens), entry }] : [],
      ),
  },
  gemini: {
    query: '?pageSize=1000',
    headers: {},
    read: ({ models }) =>
      objectsIn(models)?.flatMap(entry =>
        typeof entry.name === 'string'
          ? [{ id: entry.name.replace(/^models\//, ''), contextTokens: tokens(entry.inputTokenLimit), entry }]
          : [],
      ),
  },
}

function objectsIn(value: unknown): JsonObject[] | undefined {
  return Array.isArray(value) ? value.filter(isJsonObject) : undefined
}

function tokens(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : null
}

function problemText(baseUrl: string, status: number, body: unknown): string {
  if (status === 401 || status === 403)
    return `${baseUrl} answers ${status}: it refuses the key. Check it, and that it may list models.`
  const said = isJsonObject(body) && isJsonObject(body.error) ? body.error.message : undefined
  const detail = typeof said === 'string' ? `: ${said.slice(0, 200)}` : ''
  return `${baseUrl} answers ${status} without a list of models${detail}. Check the address, such as whether it ends in /v1.`
}
