import type { Feature } from '../../../base/domain/chat-job.ts'
import { ASSUMED_CONTEXT_TOKENS, localTimeouts, standardQuirks } from '../../../base/domain/endpoint-defaults.ts'
import type { TokenPrice } from '../../../base/domain/money.ts'
import { type Endpoint, isReservedModel, type Offer, serves } from '../../../base/domain/offer.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { getJson, type JsonAnswer } from '../../../wire/egress/get-json.ts'
import { askContexts, askLlamaCppTask, type ListedModel, type ServerSoftware } from './ask-contexts.ts'

/** A server or cloud that was found, as shown to the operator. */
export interface Finding {
  readonly name: string
  readonly kind: 'local' | 'cloud'
  readonly baseUrl: string
  /** The model ids that customers request. */
  readonly models: readonly string[]
  /** The models that serve chat. */
  readonly chatModels: readonly string[]
  /** Explains the finding and says what to do. */
  readonly note: string
}

export interface DetectedLocal {
  readonly finding: Finding
  readonly offers: readonly Offer[]
}

export interface LocalServer {
  readonly name: string
  readonly port: number
}

/** Default ports of local model servers. llama.cpp has two, an old and a new one. */
export const commonLocalServers: readonly LocalServer[] = [
  { name: 'ollama', port: 11434 },
  { name: 'llamacpp', port: 8080 },
  { name: 'llamacpp-9931', port: 9931 },
  { name: 'vllm', port: 8000 },
  { name: 'lmstudio', port: 1234 },
  { name: 'sglang', port: 30000 },
]

export interface DetectLocalOptions {
  /** The operator's price for detected models; a model without a price is not sold. */
  readonly price: TokenPrice
  /** Ports of this process, which must not be mistaken for a model server. */
  readonly ownPorts: readonly number[]
  /** Endpoint names that the configuration declares. */
  readonly except?: ReadonlySet<string>
  readonly servers?: readonly LocalServer[]
  readonly timeoutMs?: number
  /** The offers of models that were found before, by offer id. Their servers are not asked about them again. */
  readonly known?: ReadonlyMap<string, KnownOffer>
}

/** What was learned of a model. */
export type KnownOffer = Pick<Offer, 'contextTokens' | 'features'>

/** The local servers to ask: those on the default ports, and those on other ports of this machine. */
export function localServersAt(ports: readonly number[]): readonly LocalServer[] {
  const others = ports.filter(port => commonLocalServers.every(server => server.port !== port))
  return [...commonLocalServers, ...others.map(port => ({ name: `local-${port}`, port }))]
}

/**
 * `silent`: no answer in HTTP in time. `other`: not a model server. `locked`: it needs a key. `models`: it listed its
 * models.
 */
export type LocalAnswer =
  | { readonly kind: 'silent' | 'other' }
  | ({ readonly kind: 'locked' | 'models' } & DetectedLocal)

/**
 * Asks the default ports of local model servers for their models, all at once and only on loopback. Never rejects:
 * a port that does not answer like a model server in time is skipped.
 */
export async function detectLocal(options: DetectLocalOptions): Promise<DetectedLocal[]> {
  const answers = [...(await askLocalServers(options)).values()]
  return answers.flatMap(answer => ('offers' in answer ? [answer] : []))
}

/** Does the same, and returns the answer of each server by its name. */
export async function askLocalServers(options: DetectLocalOptions): Promise<ReadonlyMap<string, LocalAnswer>> {
  const { ownPorts, except, servers = commonLocalServers } = options
  const asked = servers.filter(({ name, port }) => !ownPorts.includes(port) && !except?.has(name))
  return new Map(await Promise.all(asked.map(async server => [server.name, await askServer(server, options)] as const)))
}

const nothingKnown: ReadonlyMap<string, KnownOffer> = new Map()

async function askServer(
  server: LocalServer,
  { price, timeoutMs = 500, known = nothingKnown }: DetectLocalOptions,
): Promise<LocalAnswer> {
  const baseUrl = `http://127.0.0.1:${server.port}/v1`
  const answer = await ask(`${baseUrl}/models`, timeoutMs)
  if (!answer) return { kind: 'silent' }
  const describe = (offers: readonly Offer[], note: string): Finding => ({
    name: server.name,
    kind: 'local',
    baseUrl,
    ...modelsOf(offers),
    note,
  })
  if (answer.status === 401 || answer.status === 403) {
    const note = `needs an API key. Declare it in switchyard.yaml, with its key, to offer its models.`
    return { kind: 'locked', finding: describe([], note), offers: [] }
  }
  const listed = answer.status === 200 ? readModels(server, answer.body) : undefined
  if (!listed) return { kind: 'other' }
  const knownOf = ({ modelId }: LocalModel) => known.get(offerIdOf(server, modelId))
  const isKnown = (model: LocalModel) => knownOf(model) !== undefined
  const asked = { baseUrl, timeoutMs }
  const { contexts, software } = await askContexts(
    asked,
    listed.map(model => model.listed),
    new Set(listed.filter(isKnown).map(model => model.listed.id)),
  )
  const models = await Promise.all(
    listed.map(async model => {
      const before = knownOf(model)
      if (before !== undefined) return { ...model, features: before.features }
      // A list with models of several servers comes from a proxy.
      const isLlamaCpp = software === 'llama.cpp' && model.listed.max_model_len === undefined
      const task = isLlamaCpp ? await askLlamaCppTask(asked, model.listed) : null
      return task === null ? model : { ...model, features: featuresOfTask[task] }
    }),
  )
  const offers = toOffers(
    server,
    baseUrl,
    models,
    price,
    model => contexts.get(model.listed.id) ?? knownOf(model)?.contextTokens ?? ASSUMED_CONTEXT_TOKENS,
  )
  return { kind: 'models', finding: describe(offers, noteOn(models, contexts, software)), offers }
}

/** Returns the part of a finding that follows from its offers. */
export function modelsOf(offers: readonly Offer[]): Pick<Finding, 'models' | 'chatModels'> {
  const chatting = offers.filter(offer => serves(offer, 'chat'))
  return { models: offers.map(({ modelId }) => modelId), chatModels: chatting.map(({ modelId }) => modelId) }
}

/** A shorter context does not fit the instructions and tools that a coding agent sends. */
const AGENT_CONTEXT_TOKENS = 16_384

/** How a larger context is set. */
const contextSettings: Readonly<Record<ServerSoftware, string>> = {
  ollama: 'Set OLLAMA_CONTEXT_LENGTH for Ollama, or num_ctx of the model.',
  'llama.cpp': 'Start llama.cpp with a larger -c.',
  vllm: 'Start vLLM with a larger --max-model-len.',
  sglang: 'Start SGLang with a larger --context-length.',
  lmstudio: 'Load the model in LM Studio with a larger context length.',
}

function noteOn(
  models: readonly LocalModel[],
  contexts: ReadonlyMap<string, number>,
  software: ServerSoftware | null,
): string {
  if (models.length === 0)
    return 'has no model loaded that can be offered. Load a model: it is offered within a minute.'
  const chatting = models.filter(({ features }) => features.has('chat'))
  const small = chatting.filter(({ listed }) => (contexts.get(listed.id) ?? Infinity) < AGENT_CONTEXT_TOKENS)
  const unknown = chatting.filter(({ listed }) => !contexts.has(listed.id))
  return [
    'offered at detect.local_price_per_million_usd. Declare it in switchyard.yaml to set prices per model.',
    ...(small.length > 0
      ? [
          `The context of ${countOf(small)} has less than ${AGENT_CONTEXT_TOKENS} tokens, too few for coding agents. ${software === null ? 'Start the server with a larger context.' : contextSettings[software]}`,
        ]
      : []),
    ...(unknown.length > 0
      ? [
          `The server does not report the context of ${countOf(unknown)}, so ${ASSUMED_CONTEXT_TOKENS} tokens are assumed. If it is less, declare context_tokens.`,
        ]
      : []),
  ].join(' ')
}

function countOf(models: readonly LocalModel[]): string {
  const [only] = models
  return only !== undefined && models.length === 1 ? only.modelId : `${models.length} models`
}

/** Returns undefined when nothing listens at the URL, or when it answers too slowly or not in HTTP. */
function ask(url: string, timeoutMs: number): Promise<JsonAnswer | undefined> {
  return getJson(url, { timeoutMs, headers: { accept: 'application/json' } }).catch(() => undefined)
}

interface LocalModel {
  /** Its entry in the list of the server. With llama.cpp, its id is the path of a file. */
  readonly listed: ListedModel
  /** The id for customers. */
  readonly modelId: string
  readonly features: ReadonlySet<Feature>
}

/** Returns undefined when the body is not a list of models in OpenAI's format, so that this is no model server. */
function readModels(server: LocalServer, list: unknown): LocalModel[] | undefined {
  if (!isJsonObject(list)) return undefined
  // An Ollama without models writes null for the empty list.
  const data = list.object === 'list' && list.data === null ? [] : list.data
  if (!Array.isArray(data)) return undefined
  const models = new Map<string, LocalModel>()
  for (const entry of data) {
    if (models.size === MODELS_MAX) break
    if (!isJsonObject(entry)) continue
    const { id } = entry
    if (typeof id !== 'string' || !isUsable(id) || RUNS_ELSEWHERE.test(id)) continue
    const features = featuresOf(server, entry, id)
    const modelId = nameOf(id)
    if (features === null || isReservedModel(modelId) || models.has(modelId)) continue
    models.set(modelId, { listed: { ...entry, id }, modelId, features })
  }
  return [...models.values()]
}

/** Any program may listen on these ports. A list without end must not occupy the gateway. */
const MODELS_MAX = 1_000
const ID_UNITS_MAX = 256

/** Whether a model can be requested by this id and asked for in a URL: no control characters, no lone surrogates. */
function isUsable(id: string): boolean {
  return id !== '' && id.length <= ID_UNITS_MAX && id.isWellFormed() && !/\p{Cc}/u.test(id)
}

/** Models that are not offered. Servers list them along with the others. */
const NOT_OFFERED = /whisper|\btts\b|\bclip\b/i
const RERANKS = /rerank/i
/** Servers that have no endpoint for reranking. They list such models along with the others. */
const withoutRerank: ReadonlySet<string> = new Set(['ollama', 'lmstudio'])
const EMBEDS = /embed|\bbge-|\bgte-|\be5-|minilm/i

/**
 * Returns what a model declares, or null if it is not offered. Every common server serves chat and completions. Servers
 * do not report features of chat, and eligibility assumes that a local offer without any has all of them. Models that
 * embed or rerank are known by their entry (Infinity and LM Studio say so), a llama.cpp is asked, and otherwise their name decides.
 */
function featuresOf(server: LocalServer, { type, capabilities }: JsonObject, id: string): ReadonlySet<Feature> | null {
  if (NOT_OFFERED.test(id)) return null
  const said = new Set([type, ...(Array.isArray(capabilities) ? capabilities : [])])
  if (said.has('rerank') || RERANKS.test(id)) return withoutRerank.has(server.name) ? null : reranksOnly
  const embeds = said.has('embed') || said.has('embedding') || said.has('embeddings') || EMBEDS.test(id)
  return embeds ? embedsOnly : generates
}

const generates: ReadonlySet<Feature> = new Set(['chat', 'completions'])
const embedsOnly: ReadonlySet<Feature> = new Set(['embeddings'])
const reranksOnly: ReadonlySet<Feature> = new Set(['rerank'])
const featuresOfTask = { generates, embeds: embedsOnly, reranks: reranksOnly }

/**
 * Models of Ollama that run in its cloud, such as `gpt-oss:120b-cloud`. Offering them as local would send private
 * requests there.
 */
const RUNS_ELSEWHERE = /[:-]cloud$/

/**
 * Returns the id for customers: `/models/Qwen3-8B-Q4_K_M.gguf` becomes `Qwen3-8B-Q4_K_M`. Other ids may
 * contain slashes and stay.
 */
function nameOf(upstreamModel: string): string {
  if (!/\.gguf$/i.test(upstreamModel)) return upstreamModel
  return upstreamModel.replace(/^.*[\\/]/, '').replace(/(-00001-of-\d{5})?\.gguf$/i, '')
}

function offerIdOf({ name }: LocalServer, modelId: string): string {
  return `${name}/${modelId}`
}

function toOffers(
  server: LocalServer,
  baseUrl: string,
  models: readonly LocalModel[],
  price: TokenPrice,
  contextOf: (model: LocalModel) => number,
): Offer[] {
  const endpoint: Endpoint = {
    endpointId: server.name,
    kind: 'local',
    hosterId: null,
    name: server.name,
    baseUrl,
    apiKey: null,
    dialect: standardQuirks,
    timeouts: localTimeouts,
    trustScore: null,
    hosterShareBps: 0,
    demo: false,
    egress: 'any',
  }
  return models.map(model => {
    const contextTokens = contextOf(model)
    return {
      offerId: offerIdOf(server, model.modelId),
      endpoint,
      modelId: model.modelId,
      upstreamModel: model.listed.id,
      price,
      contextTokens,
      maxOutputTokens: contextTokens,
      features: model.features,
    }
  })
}
