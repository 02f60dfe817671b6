import { localTimeouts, standardQuirks } from '../../domain/endpoint-defaults.ts'
import type { TokenPrice } from '../../domain/money.ts'
import { type Endpoint, isReservedModel, type Offer } from '../../domain/offer.ts'
import { getJson, type JsonAnswer } from '../../egress/get-json.ts'
import { isJsonObject } from '../../runtime/json-object.ts'

/** A server or cloud that was found at start, as shown to the operator. */
export interface Finding {
  readonly name: string
  readonly kind: 'local' | 'cloud'
  readonly baseUrl: string
  /** The model ids that customers request. */
  readonly models: readonly string[]
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
}

/**
 * Asks the default ports of local model servers for their models, all at once and only on loopback. Never rejects:
 * a port that does not answer like a model server in time is skipped.
 */
export async function detectLocal(options: DetectLocalOptions): Promise<DetectedLocal[]> {
  const { price, ownPorts, except, servers = commonLocalServers, timeoutMs = 500 } = options
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
    const note = `needs an API key. Declare it in switchyard.yaml, with its key, to offer its models.`
    return { finding: describe([], note), offers: [] }
  }
  const models = answer.status === 200 ? readModels(answer.body) : undefined
  if (!models) return undefined
  const offers = toOffers(server, baseUrl, models, price)
  const note =
    offers.length > 0
      ? 'offered at detect.local_price_per_million_usd. Declare it in switchyard.yaml to set prices per model.'
      : 'has no chat model loaded, so nothing is offered. Load a model and restart the gateway.'
  return {
    finding: describe(
      offers.map(offer => offer.modelId),
      note,
    ),
    offers,
  }
}

/** Returns undefined when nothing listens at the URL, or when it answers too slowly or not in HTTP. */
function ask(url: string, timeoutMs: number): Promise<JsonAnswer | undefined> {
  return getJson(url, { timeoutMs, headers: { accept: 'application/json' } }).catch(() => undefined)
}

interface LocalModel {
  /** The model id at the server; with llama.cpp the path of a file. */
  readonly upstreamModel: string
  readonly modelId: string
  readonly contextTokens: number
}

/** Returns undefined when the body is not a list of models in OpenAI's format, so that this is no model server. */
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

/** Models that cannot chat. Servers list them along with chat models. */
const NO_CHAT = /embed|rerank|whisper|\btts\b|\bbge-|\bclip\b/i

/**
 * Returns the id for customers: `/models/Qwen3-8B-Q4_K_M.gguf` becomes `Qwen3-8B-Q4_K_M`. Other ids may
 * contain slashes and stay.
 */
function nameOf(upstreamModel: string): string {
  if (!/\.gguf$/i.test(upstreamModel)) return upstreamModel
  return upstreamModel.replace(/^.*[\\/]/, '').replace(/(-00001-of-\d{5})?\.gguf$/i, '')
}

/**
 * The assumed context of a server that does not report one. Larger than Ollama's default, so that long
 * prompts are not refused here. An operator who needs the exact value declares the model.
 */
const CONTEXT_TOKENS_ASSUMED = 32_768

/**
 * vLLM and SGLang report max_model_len; llama.cpp reports meta.n_ctx (as served) or only meta.n_ctx_train (as
 * trained).
 */
function contextOf(entry: Record<string, unknown>): number {
  const meta = isJsonObject(entry.meta) ? entry.meta : {}
  const reported = [entry.max_model_len, meta.n_ctx, meta.n_ctx_train, entry.context_length]
  const known = reported.find(value => typeof value === 'number' && Number.isSafeInteger(value) && value > 0)
  return (known as number | undefined) ?? CONTEXT_TOKENS_ASSUMED
}

function toOffers(server: LocalServer, baseUrl: string, models: readonly LocalModel[], price: TokenPrice): Offer[] {
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
  return models.map(({ modelId, upstreamModel, contextTokens }) => ({
    offerId: `${server.name}/${modelId}`,
    endpoint,
    modelId,
    upstreamModel,
    price,
    contextTokens,
    maxOutputTokens: contextTokens,
    // Servers do not report features. Eligibility assumes that a local offer without declared features has all.
    features: new Set(),
  }))
}
