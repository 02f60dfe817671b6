import { localTimeouts, standardDialect } from '../../domain/endpoint-defaults.ts'
import type { TokenPrice } from '../../domain/money.ts'
import { type Endpoint, isReservedModel, type Offer } from '../../domain/offer.ts'
import { getJson, type JsonAnswer } from '../../egress/get-json.ts'
import { isJsonObject } from '../../runtime/json-object.ts'

/** Something that was found at start and may be offered; shown to the operator. */
export interface Finding {
  readonly name: string
  readonly kind: 'local' | 'cloud'
  readonly baseUrl: string
  /** The ids customers would ask for. */
  readonly models: readonly string[]
  /** What it is and what to do about it, for a person. */
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

/** Where local model servers listen when nobody tells them otherwise. llama.cpp has two defaults, an old and a new one. */
export const usualLocalServers: readonly LocalServer[] = [
  { name: 'ollama', port: 11434 },
  { name: 'llamacpp', port: 8080 },
  { name: 'llamacpp-9931', port: 9931 },
  { name: 'vllm', port: 8000 },
  { name: 'lmstudio', port: 1234 },
  { name: 'sglang', port: 30000 },
]

export interface DetectLocalOptions {
  /** Set by the operator for models nobody declared; a model without a price is not sold. */
  readonly price: TokenPrice
  /** Ports of this process, which must not be taken for a model server. */
  readonly ownPorts: readonly number[]
  /** Endpoint names that the configuration declares itself. */
  readonly except?: ReadonlySet<string>
  readonly servers?: readonly LocalServer[]
  readonly timeoutMs?: number
}

/**
 * Asks the usual ports of this machine, loopback only and all at once, for their models. Never rejects: what does not answer
 * in time like a model server is not there.
 */
export async function detectLocal(options: DetectLocalOptions): Promise<DetectedLocal[]> {
  const { price, ownPorts, except, servers = usualLocalServers, timeoutMs = 500 } = options
  const asked = servers
    .filter(({ name, port }) => !ownPorts.includes(port) && !except?.has(name))
    .map(server => askServer(server, price, timeoutMs))
  return (await Promise.all(asked)).filter(found => found !== undefined)
}

async function askServer(
  server: LocalServer,
  price: TokenPrice,
  timeoutMs: number,
): Promise<DetectedLocal | undefined> {
  const baseUrl = `http://127.0.0.1:${server.port}/v1`
  const answer = await ask(`${baseUrl}/models`, timeoutMs)
  if (!answer) return undefined
  const describe = (models: readonly string[], note: string): Finding => ({
    name: server.name,
    kind: 'local',
    baseUrl,
    models,
    note,
  })
  if (answer.status === 401 || answer.status === 403) {
    const note = `wants an API key. Declare it in switchyard.yaml, with its key, to offer its models.`
    return { finding: describe([], note), offers: [] }
  }
  const models = answer.status === 200 ? readModels(answer.body) : undefined
  if (!models) return undefined
  const offers = toOffers(server, baseUrl, models, price)
  const note =
    offers.length > 0
      ? 'offered at detect.local_price_per_million_usd. Declare it in switchyard.yaml to set prices per model.'
      : 'has no chat model loaded, so there is nothing to offer.'
  return {
    finding: describe(
      offers.map(offer => offer.modelId),
      note,
    ),
    offers,
  }
}

/** Undefined when nothing listens there, when it is too slow, and when it does not speak HTTP: all the same to us. */
function ask(url: string, timeoutMs: number): Promise<JsonAnswer | undefined> {
  return getJson(url, { timeoutMs, headers: { accept: 'application/json' } }).catch(() => undefined)
}

interface LocalModel {
  /** The id the server knows the model by; llama.cpp gives the path of its file. */
  readonly upstreamModel: string
  readonly modelId: string
  readonly contextTokens: number
}

/** Undefined when the body is not a list of models in OpenAI's shape, so not a model server. */
function readModels(list: unknown): LocalModel[] | undefined {
  const data = isJsonObject(list) ? list.data : undefined
  if (!Array.isArray(data)) return undefined
  const models = data.filter(isJsonObject).flatMap((entry): LocalModel[] => {
    const upstreamModel = entry.id
    if (typeof upstreamModel !== 'string' || upstreamModel === '' || NO_CHAT.test(upstreamModel)) return []
    const modelId = nameOf(upstreamModel)
    return isReservedModel(modelId) ? [] : [{ upstreamModel, modelId, contextTokens: contextOf(entry) }]
  })
  return models.filter(({ modelId }, at) => models.findIndex(other => other.modelId === modelId) === at)
}

/** Servers list these beside chat models, and they answer a chat with an error. */
const NO_CHAT = /embed|rerank|whisper|\btts\b|\bbge-|\bclip\b/i

/** `/models/Qwen3-8B-Q4_K_M.gguf` is a fact about a disk; customers ask for `Qwen3-8B-Q4_K_M`. Other ids may hold slashes. */
function nameOf(upstreamModel: string): string {
  if (!/\.gguf$/i.test(upstreamModel)) return upstreamModel
  return upstreamModel.replace(/^.*[\\/]/, '').replace(/(-00001-of-\d{5})?\.gguf$/i, '')
}

/**
 * What to assume of a server that does not tell. Larger than Ollama's default, so long prompts are not refused here; whoever
 * wants to be exact declares the model.
 */
const CONTEXT_TOKENS_UNTOLD = 32_768

/** vLLM and SGLang tell max_model_len; llama.cpp tells meta.n_ctx (as served) or only meta.n_ctx_train (as trained). */
function contextOf(entry: Record<string, unknown>): number {
  const meta = isJsonObject(entry.meta) ? entry.meta : {}
  const told = [entry.max_model_len, meta.n_ctx, meta.n_ctx_train, entry.context_length]
  return (
    (told.find(value => typeof value === 'number' && Number.isSafeInteger(value) && value > 0) as number | undefined) ??
    CONTEXT_TOKENS_UNTOLD
  )
}

function toOffers(server: LocalServer, baseUrl: string, models: readonly LocalModel[], price: TokenPrice): Offer[] {
  const endpoint: Endpoint = {
    endpointId: server.name,
    kind: 'local',
    hosterId: null,
    name: server.name,
    baseUrl,
    apiKey: null,
    dialect: standardDialect,
    timeouts: localTimeouts,
    trustScore: null,
    hosterShareBps: 0,
    demo: false,
    egress: 'any',
  }
  return models.map(({ modelId, upstreamModel, contextTokens }) => ({
    offerId: `${server.name}/${modelId}`,
    endpoint,
    modelId,
    upstreamModel,
    price,
    contextTokens,
    maxOutputTokens: contextTokens,
    // Not told; eligibility takes a local server with no declared features as able.
    features: new Set(),
  }))
}
