import { z } from 'zod'
import { features } from '../../base/domain/chat-job.ts'
import { isPlain } from '../../base/runtime/plain-text.ts'

// What the agent of a hoster and the gateway send each other. An agent keeps one control connection to each node, with
// one JSON object per text message, and a stock of data connections, each of which carries one HTTP/1.1 request and
// its response as binary messages. docs/hosters.md describes both.

export const CONTROL_PATH = '/v1/agent/control'
export const DATA_PATH = '/v1/agent/data'
/** The agent program sends a random UUID, which ties its data connections to its control connection. */
export const AGENT_HEADER = 'x-switchyard-agent'
/** The node that answered, in every answer to both paths. Behind one address there may be many nodes. */
export const NODE_HEADER = 'x-switchyard-node'

/** The largest message on a control connection, in bytes. A thousand models fit. */
export const CONTROL_BYTES_MAX = 256 * 1024
/** The largest message on a data connection, in bytes. The agent sends at most 64 KiB. */
export const DATA_BYTES_MAX = 256 * 1024
export const ANNOUNCED_MAX = 1_000
export const MODEL_ID_CHARACTERS_MAX = 256
export const REASON_CHARACTERS_MAX = 200
export const SLOTS_MAX = 1_024

/** Codes of closed WebSockets: 4000 to 4999 are free for applications (RFC 6455, 7.4.2). */
export const closeCodes = {
  /** The key was revoked, or the hoster may no longer serve. */
  unauthorized: 4401,
  /** A message was malformed, or there were too many. */
  protocol: 4400,
  /** The node shuts down. */
  goingAway: 1001,
} as const

/** One line. PostgreSQL refuses a NUL in the report of a node, and a terminal obeys an escape sequence. */
const line = (charactersMax: number) => z.string().max(charactersMax).refine(isPlain)
const modelId = line(MODEL_ID_CHARACTERS_MAX).min(1)
const tokens = z.int().min(1).max(100_000_000)

const announcedModel = z.strictObject({
  /** The id of the model at the hoster's server. */
  id: modelId,
  context_tokens: tokens.optional(),
  features: z.array(z.enum(features)).max(features.length).optional(),
  /** How many requests for this model may run at once. */
  slots: z.int().min(1).max(SLOTS_MAX),
})
export type AnnouncedModel = z.infer<typeof announcedModel>

export const agentStates = ['open', 'paused', 'draining'] as const
export type AgentState = (typeof agentStates)[number]

/** Messages from an agent. Unknown fields are refused. */
export const fromAgentSchema = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('announce'),
    version: line(64),
    models: z.array(announcedModel).max(ANNOUNCED_MAX),
    /** How many requests may run at once, for all models together. */
    slots: z.int().min(1).max(SLOTS_MAX),
  }),
  z.strictObject({
    type: z.literal('status'),
    state: z.enum(agentStates),
    /** Why requests are refused: a schedule, a power limit, a stop. */
    reason: line(REASON_CHARACTERS_MAX).optional(),
    free_slots: z.int().min(0).max(SLOTS_MAX),
  }),
])
export type FromAgent = z.infer<typeof fromAgentSchema>

const usd = z.string().max(40)

/** Messages from a node. An agent ignores fields that it does not know: gateways may be newer than it. */
export const toAgentSchema = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('welcome'),
    node: z.string(),
    /** The nodes that are alive, with this one. */
    nodes: z.array(z.string()),
    hoster: z.object({ id: z.string(), name: z.string(), state: z.string() }),
    endpoint: z.string(),
    time_ms: z.number(),
    /** The node pings this often. An agent that sees no ping for three times as long may drop the connection. */
    ping_seconds: z.number(),
    limits: z.object({ idle_connections: z.number(), connections: z.number() }),
  }),
  z.object({ type: z.literal('nodes'), nodes: z.array(z.string()) }),
  z.object({
    type: z.literal('models'),
    hoster_state: z.string(),
    /** The models that may get requests, with the id that customers use, and prices per million tokens. */
    served: z.array(z.object({ id: z.string(), model: z.string(), input_usd: usd, output_usd: usd })),
    not_served: z.array(z.object({ id: z.string(), reason: z.string() })),
  }),
  /** How many idle data connections the node wants from this agent. */
  z.object({ type: z.literal('stock'), idle: z.number() }),
  z.object({ type: z.literal('earnings'), today_usd: usd, total_usd: usd }),
  /** The node shuts down: it takes no more requests, and running ones end. */
  z.object({ type: z.literal('drain') }),
])
export type ToAgent = z.infer<typeof toAgentSchema>
