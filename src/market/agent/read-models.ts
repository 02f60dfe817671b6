import { isJsonObject, type JsonObject } from '../../base/runtime/json-object.ts'
import { isPlain } from '../../base/runtime/plain-text.ts'
import type { AnnouncedModel } from '../../wire/api/agent-protocol.ts'
import { ANNOUNCED_MAX, MODEL_ID_CHARACTERS_MAX } from '../../wire/api/agent-protocol.ts'
import { getJson } from '../../wire/egress/get-json.ts'
import { askContexts, type ListedModel } from '../supply/detection/ask-contexts.ts'
import type { Upstream } from './upstream.ts'

const TIMEOUT_MS = 5_000

/** The models of the server, without their places. */
export type FoundModel = Omit<AnnouncedModel, 'slots'>

/**
 * Asks the model server for its models and their contexts: Ollama, llama.cpp, vLLM, LM Studio and any other server with
 * `GET /v1/models`. Rejects with an Error for the hoster.
 *
 * @param known the contexts that were found before; they are not asked again
 */
export async function readModels(
  { baseUrl, key }: Upstream,
  known: ReadonlyMap<string, number> = new Map(),
): Promise<FoundModel[]> {
  const headers = key === null ? {} : { authorization: `Bearer ${key}` }
  const server = { baseUrl, headers, timeoutMs: TIMEOUT_MS }
  const { status, body } = await getJson(`${baseUrl}/models`, server).catch((error: Error) => {
    throw new Error(
      `The model server at ${baseUrl} does not answer (${error.message}). Start it, or correct --upstream.`,
    )
  })
  if (status === 401 || status === 403) {
    throw new Error(`The model server at ${baseUrl} wants a key. Pass it with --upstream-key-file.`)
  }
  const listed = status === 200 ? listedModels(body) : undefined
  if (listed === undefined) {
    throw new Error(
      `${baseUrl}/models does not list models (status ${status}). Correct --upstream; it usually ends in /v1.`,
    )
  }
  const { contexts } = await askContexts(server, listed, new Set(known.keys()))
  return listed.slice(0, ANNOUNCED_MAX).map(({ id }) => {
    const context = contexts.get(id) ?? known.get(id)
    return { id, ...(context !== undefined && { context_tokens: context }) }
  })
}

function listedModels(body: unknown): ListedModel[] | undefined {
  const data = isJsonObject(body) ? body.data : undefined
  return Array.isArray(data) ? data.filter(isListedModel) : undefined
}

function isListedModel(value: unknown): value is ListedModel {
  const { id } = isJsonObject(value) ? value : ({} as JsonObject)
  return typeof id === 'string' && id !== '' && id.length <= MODEL_ID_CHARACTERS_MAX && isPlain(id)
}
