import { randomUUID } from 'node:crypto'
import { CONTROL_PATH, type ToAgent, toAgentSchema } from '../../wire/api/agent-protocol.ts'
import { postJson } from '../../wire/egress/get-json.ts'
import { dial } from './dial.ts'
import { gpuWatts } from './power-gate.ts'
import { type FoundModel, readModels } from './read-models.ts'
import type { AgentOptions } from './run-agent.ts'

/** The result of one check. `detail` says what was found and, if `ok` is false, what to do. */
export interface AgentFinding {
  readonly check: string
  readonly ok: boolean
  /** The gateway or its operator comes next. */
  readonly isWaiting?: boolean
  readonly detail: string
}

/** The states of a hoster before its first request. */
const joiningStates: ReadonlySet<string> = new Set(['applied', 'pending', 'verified'])

const ANSWER_TIMEOUT_MS = 60_000
const GATEWAY_TIMEOUT_MS = 10_000
/** A clock that differs by more makes times in the log hard to compare, and certificates may look invalid. */
const CLOCK_MS_MAX = 30_000
const SPEED_TOKENS = 64

/**
 * Checks everything that serving needs: the model server, its models and speed, and the connection to the gateway.
 * Never rejects.
 */
export async function checkAgent(options: AgentOptions, version: string): Promise<AgentFinding[]> {
  const models = await readModels(options.upstream).catch((error: Error) => error)
  const found = models instanceof Error ? [] : models.filter(({ id }) => options.models?.includes(id) ?? true)
  return [
    serverFinding(models),
    ...(models instanceof Error ? [] : [modelsFinding(found, options), ...contextFindings(found)]),
    ...(found[0] === undefined ? [] : [await speedFinding(options, found[0])]),
    ...(await gatewayFindings(options, found, version)),
    ...(options.powerLimitWatts === null ? [] : [await powerFinding()]),
  ]
}

function serverFinding(models: readonly FoundModel[] | Error): AgentFinding {
  if (models instanceof Error) return { check: 'model server', ok: false, detail: models.message }
  return { check: 'model server', ok: true, detail: `it answers; number of models: ${models.length}` }
}

function modelsFinding(found: readonly FoundModel[], { models }: AgentOptions): AgentFinding {
  const missing = models?.filter(id => found.every(model => model.id !== id)) ?? []
  if (missing.length > 0) {
    return {
      check: 'models',
      ok: false,
      detail: `not at the model server: ${missing.join(', ')}. Load them, or correct --models.`,
    }
  }
  if (found.length === 0) return { check: 'models', ok: false, detail: 'The model server has no model. Load one.' }
  return { check: 'models', ok: true, detail: found.map(({ id }) => id).join(', ') }
}

function contextFindings(found: readonly FoundModel[]): AgentFinding[] {
  return found.map(({ id, context_tokens }) => ({
    check: 'context',
    ok: true,
    detail:
      context_tokens === undefined
        ? `${id}: not reported; make sure that the server runs it with the context of your price list`
        : `${id}: ${context_tokens} tokens`,
  }))
}

async function speedFinding({ upstream }: AgentOptions, { id }: FoundModel): Promise<AgentFinding> {
  const headers: Record<string, string> = upstream.key === null ? {} : { authorization: `Bearer ${upstream.key}` }
  const body = { model: id, max_tokens: SPEED_TOKENS, messages: [{ role: 'user', content: 'Count from 1 to 50.' }] }
  const startMs = performance.now()
  try {
    const answer = await postJson(`${upstream.baseUrl}/chat/completions`, body, {
      timeoutMs: ANSWER_TIMEOUT_MS,
      headers,
    })
    const seconds = (performance.now() - startMs) / 1000
    if (answer.status !== 200) {
      return {
        check: 'speed',
        ok: false,
        detail: `${id} answered with status ${answer.status}. Try it with curl first.`,
      }
    }
    const tokens = (answer.body as { usage?: { completion_tokens?: number } })?.usage?.completion_tokens
    const speed = tokens === undefined ? 'reports no tokens' : `${Math.round(tokens / seconds)} tokens per second`
    return { check: 'speed', ok: true, detail: `${id}: ${speed}, whole answer after ${seconds.toFixed(1)} s` }
  } catch (error) {
    return { check: 'speed', ok: false, detail: `${id}: ${(error as Error).message}. Try it with curl first.` }
  }
}

async function powerFinding(): Promise<AgentFinding> {
  const watts = await gpuWatts()
  return watts === null
    ? {
        check: 'power',
        ok: false,
        detail: 'nvidia-smi cannot be run. Install it, or use --pause-command instead of --power-limit.',
      }
    : { check: 'power', ok: true, detail: `the GPUs draw ${Math.round(watts)} W` }
}

async function gatewayFindings(
  options: AgentOptions,
  models: readonly FoundModel[],
  version: string,
): Promise<AgentFinding[]> {
  const findings = await Promise.all(options.gateways.map(gateway => oneGateway(gateway, options, models, version)))
  return findings.flat()
}

/** Connects as an agent that is paused, so that no request comes. */
async function oneGateway(
  gateway: string,
  { key, endpoint, slots, slotsPerModel }: AgentOptions,
  models: readonly FoundModel[],
  version: string,
): Promise<AgentFinding[]> {
  const path = endpoint === null ? CONTROL_PATH : `${CONTROL_PATH}?${new URLSearchParams({ endpoint })}`
  const dialled = await dial({ gateway, path, key, agentId: randomUUID() })
  if (dialled.kind === 'refused') {
    const isReached = dialled.status !== null
    return [
      { check: 'gateway', ok: isReached, detail: isReached ? `${gateway} answers` : `${gateway}: ${dialled.message}` },
      ...(isReached ? [{ check: 'key', ok: false, detail: dialled.message }] : []),
    ]
  }
  const { socket } = dialled
  const messages: ToAgent[] = []
  const complete = Promise.withResolvers<void>()
  const timer = setTimeout(complete.resolve, GATEWAY_TIMEOUT_MS)
  socket.on('message', (data: Buffer) => {
    const { data: message } = toAgentSchema.safeParse(JSON.parse(data.toString('utf8')))
    if (message !== undefined) messages.push(message)
    if (message?.type === 'models' || (message?.type === 'welcome' && models.length === 0)) complete.resolve()
  })
  socket.once('close', () => complete.resolve())
  socket.resume()
  socket.send(JSON.stringify({ type: 'status', state: 'paused', reason: 'the doctor checks', free_slots: 0 }))
  const announced = models.map(model => ({ ...model, slots: slotsPerModel }))
  socket.send(JSON.stringify({ type: 'announce', version, slots, models: announced }))
  await complete.promise
  clearTimeout(timer)
  socket.terminate()
  return describe(gateway, messages)
}

function describe(gateway: string, messages: readonly ToAgent[]): AgentFinding[] {
  const welcome = messages.find(message => message.type === 'welcome')
  if (welcome === undefined)
    return [{ check: 'gateway', ok: false, detail: `${gateway} accepts the connection and says nothing.` }]
  const tls = gateway.startsWith('https:') ? 'over TLS, the certificate is valid' : 'without TLS'
  const skewMs = Math.abs(Date.now() - welcome.time_ms)
  const models = messages.find(message => message.type === 'models')
  // The hoster itself has nothing to repair.
  const isJoining = joiningStates.has(welcome.hoster.state)
  return [
    { check: 'gateway', ok: true, detail: `${gateway} answers ${tls}; number of nodes: ${welcome.nodes.length}` },
    { check: 'key', ok: true, detail: `it belongs to ${welcome.hoster.name}, which is ${welcome.hoster.state}` },
    {
      check: 'clock',
      ok: skewMs <= CLOCK_MS_MAX,
      detail: `${Math.round(skewMs / 1000)} s from the gateway${skewMs > CLOCK_MS_MAX ? '. Set the clock, for example with NTP.' : ''}`,
    },
    ...(models?.served ?? []).map(({ id, model, input_usd, output_usd }) => ({
      check: 'price',
      ok: true,
      detail: `${id} is sold as ${model} for ${input_usd} in, ${output_usd} out (USD per million tokens)`,
    })),
    ...(models?.not_served ?? []).map(({ id, reason }) => ({
      check: 'price',
      ok: (models?.served ?? []).length > 0 || isJoining,
      isWaiting: isJoining,
      detail: `${id} gets no requests: ${reason}${reason === 'no price' ? '. Set one, or leave the model out with --models.' : '.'}`,
    })),
  ]
}
