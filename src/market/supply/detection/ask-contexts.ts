import { ASSUMED_CONTEXT_TOKENS } from '../../../base/domain/endpoint-defaults.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { getJson, type JsonAnswer, postJson } from '../../../wire/egress/get-json.ts'

/** A local model server to ask. */
export interface AskedServer {
  /** Usually ends in `/v1`. Native APIs have the same address without `/v1`. */
  readonly baseUrl: string
  readonly headers?: Readonly<Record<string, string>>
  /** Time limit of each question. */
  readonly timeoutMs: number
}

/** An entry of `GET /v1/models`. */
export type ListedModel = JsonObject & { readonly id: string }

/** What a server says of itself. */
export interface ReportedContexts {
  /** By the id of the model at the server. A model is missing if the server does not report its context. */
  readonly contexts: ReadonlyMap<string, number>
  /** Null if it is not known. */
  readonly software: ServerSoftware | null
}

export type ServerSoftware = 'ollama' | 'llama.cpp' | 'vllm' | 'sglang' | 'lmstudio'

/**
 * Returns the context of each model, in tokens, and what the server is. Ollama often does not report a context before the
 * model is loaded. Never rejects.
 *
 * vLLM and SGLang list max_model_len, and llama.cpp meta.n_ctx. Otherwise the native API of the server is asked:
 * Ollama `/api/ps` and `/api/show`, llama.cpp `/props`, LM Studio `/api/v1/models` or `/api/v0/models`. It is not asked
 * about `known` models.
 */
export async function askContexts(
  server: AskedServer,
  models: readonly ListedModel[],
  known: ReadonlySet<string> = new Set(),
): Promise<ReportedContexts> {
  const contexts = new Map<string, number>()
  let software = listedSoftware(models)
  const unlisted: string[] = []
  for (const model of models) {
    const context = firstTokens(model.max_model_len, metaOf(model).n_ctx, model.context_length)
    if (context !== undefined) contexts.set(model.id, context)
    else if (!known.has(model.id)) unlisted.push(model.id)
  }
  const asked = unlisted.slice(0, ASKED_MAX)
  if (asked.length > 0) {
    for (const [name, ask] of nativeApis) {
      const reported = await ask(server, asked)
      if (reported === undefined) continue
      software = name
      for (const [id, context] of reported) contexts.set(id, context)
      break
    }
  }
  // llama.cpp serves the context that the model was trained with, unless it is started with another.
  for (const model of models) {
    const trained = firstTokens(metaOf(model).n_ctx_train)
    if (trained !== undefined && !contexts.has(model.id) && !known.has(model.id)) contexts.set(model.id, trained)
  }
  return { contexts, software }
}

/** Reads what the server is from `owned_by` or the extra fields of its list. */
function listedSoftware(models: readonly ListedModel[]): ServerSoftware | null {
  for (const { owned_by: owner, meta } of models) {
    if (owner === 'vllm' || owner === 'sglang') return owner
    if (owner === 'llamacpp' || isJsonObject(meta)) return 'llama.cpp'
  }
  return null
}

/** The most models to ask for one by one. A start must not wait for hundreds of answers. */
const ASKED_MAX = 64

/** Contexts by model; undefined when the server is of another kind. */
type Contexts = ReadonlyMap<string, number> | undefined

/**
 * A model that is loaded reports the context that it runs with. Otherwise the context is num_ctx, or the server's
 * default, which depends on the memory of the GPU and is reported nowhere (ollama issue 16978). A model that was
 * trained with less than the assumed context certainly has no more.
 */
async function askOllama(server: AskedServer, ids: readonly string[]): Promise<Contexts> {
  const running = objectsIn(await get(server, '/api/ps'), 'models')
  if (running === undefined) return undefined
  const contexts = new Map<string, number>()
  for (const { name, model, context_length } of running) {
    const context = firstTokens(context_length)
    if (context !== undefined) for (const id of [name, model]) if (typeof id === 'string') contexts.set(id, context)
  }
  await Promise.all(
    ids.map(async model => {
      if (contexts.has(model)) return
      const shown = bodyOf(await post(server, '/api/show', { model }))
      const parameters = typeof shown.parameters === 'string' ? shown.parameters : ''
      const configured = firstTokens(Number(/^num_ctx\s+(\d{1,9})\s*$/m.exec(parameters)?.[1]))
      const context = leastTokens(configured, trainedContext(shown.model_info))
      if (context !== undefined) contexts.set(model, context)
    }),
  )
  return contexts
}

/** Returns the smaller of a configured context and the trained one, or the trained one if it is certainly less. */
function leastTokens(configured: number | undefined, trained: number | undefined): number | undefined {
  if (configured !== undefined) return Math.min(configured, trained ?? configured)
  return trained !== undefined && trained < ASSUMED_CONTEXT_TOKENS ? trained : undefined
}

/** `model_info` names its fields after the architecture, such as `qwen3.context_length`. */
function trainedContext(info: unknown): number | undefined {
  const key = isJsonObject(info) ? Object.keys(info).find(name => name.endsWith('.context_length')) : undefined
  return key === undefined ? undefined : firstTokens((info as JsonObject)[key])
}

/** The context of one slot. `autoload=false` keeps a router from loading the model for this question. */
async function askLlamaCpp(server: AskedServer, ids: readonly string[]): Promise<Contexts> {
  const contexts = new Map<string, number>()
  const isLlamaCpp = await Promise.all(
    ids.map(async id => {
      const answer = await get(server, `/props?model=${encodeURIComponent(id)}&autoload=false`)
      const { default_generation_settings: settings } = bodyOf(answer)
      const context = isJsonObject(settings) ? firstTokens(settings.n_ctx) : undefined
      if (context !== undefined) contexts.set(id, context)
      return isJsonObject(settings)
    }),
  )
  return isLlamaCpp.includes(true) ? contexts : undefined
}

/** A model that is not loaded reports only its maximum; LM Studio loads it with less. */
async function askLmStudio(server: AskedServer, _ids: readonly string[]): Promise<Contexts> {
  const contexts = new Map<string, number>()
  const note = (id: unknown, loaded: unknown, largest: unknown) => {
    const context = firstTokens(loaded) ?? leastTokens(undefined, firstTokens(largest))
    if (typeof id === 'string' && context !== undefined) contexts.set(id, context)
  }
  const models = objectsIn(await get(server, '/api/v1/models'), 'models')
  for (const { key, max_context_length, loaded_instances } of models ?? []) {
    note(key, undefined, max_context_length)
    const instances = Array.isArray(loaded_instances) ? loaded_instances.filter(isJsonObject) : []
    for (const { id, config } of instances) {
      for (const name of [key, id]) note(name, isJsonObject(config) && config.context_length, undefined)
    }
  }
  if (models !== undefined) return contexts
  // LM Studio before 0.4.
  const listed = objectsIn(await get(server, '/api/v0/models'), 'data')
  for (const { id, loaded_context_length, max_context_length } of listed ?? []) {
    note(id, loaded_context_length, max_context_length)
  }
  return listed && contexts
}

const nativeApis = [
  ['ollama', askOllama],
  ['llama.cpp', askLlamaCpp],
  ['lmstudio', askLmStudio],
] as const

/** What a model of llama.cpp was started for. */
export type LlamaCppTask = 'generates' | 'embeds' | 'reranks'

/**
 * Asks a llama.cpp for what a model was started: with `--embeddings` or `--reranking` it does nothing else, and neither the list
 * nor `/props` say so. An empty question costs no computation: 501 means that it does not serve the endpoint, 400 that it does
 * (llama.cpp, tools/server: handle_embeddings_impl, handle_rerank). Null if it answers otherwise. Never rejects.
 */
export async function askLlamaCppTask(server: AskedServer, { id, status }: ListedModel): Promise<LlamaCppTask | null> {
  // A router would load the model for this question.
  if (isJsonObject(status) && status.value !== 'loaded') return null
  const serves = async (path: string) => {
    const answer = await post(server, path, { model: id })
    return answer?.status === 400 ? true : answer?.status === 501 ? false : null
  }
  const embeds = await serves('/v1/embeddings')
  if (embeds !== true) return embeds === false ? 'generates' : null
  return (await serves('/v1/rerank')) === true ? 'reranks' : 'embeds'
}

function get(server: AskedServer, path: string): Promise<JsonAnswer | undefined> {
  return getJson(nativeUrl(server, path), server).catch(() => undefined)
}

function post(server: AskedServer, path: string, body: object): Promise<JsonAnswer | undefined> {
  return postJson(nativeUrl(server, path), body, server).catch(() => undefined)
}

function nativeUrl({ baseUrl }: AskedServer, path: string): string {
  return baseUrl.replace(/\/v1$/, '') + path
}

function bodyOf(answer: JsonAnswer | undefined): JsonObject {
  return answer?.status === 200 && isJsonObject(answer.body) ? answer.body : {}
}

/** The objects of a list in the answer; undefined when the answer has no such list. */
function objectsIn(answer: JsonAnswer | undefined, key: string): JsonObject[] | undefined {
  const list = bodyOf(answer)[key]
  return Array.isArray(list) ? list.filter(isJsonObject) : undefined
}

function metaOf({ meta }: ListedModel): JsonObject {
  return isJsonObject(meta) ? meta : {}
}

/** Returns the first value that is a possible number of tokens. */
function firstTokens(...values: readonly unknown[]): number | undefined {
  return values.find(
    (value): value is number => typeof value === 'number' && Number.isSafeInteger(value) && value > 0 && value <= 1e8,
  )
}
