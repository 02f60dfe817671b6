import type { Socket } from 'node:net'
import type { Feature } from '../../src/base/domain/chat-job.ts'
import type { Dialect } from '../../src/base/domain/conversation.ts'

/** One way to harm customers of the gateway. A bystander is measured while it runs. */
export type Behaviour = ServerBehaviour | ClientBehaviour

/** A server that answers one customer in a harmful way: a hoster, unless it speaks another dialect than chat. */
export interface ServerBehaviour {
  readonly party: 'server'
  /** Short and unique; also the model of the hoster. */
  readonly name: string
  /** One line for the report. */
  readonly what: string
  /** Called for each request. Rejections are ignored. */
  readonly onRequest: (turn: Turn) => unknown
  /** Called for each connection, before any request. */
  readonly onConnection?: (socket: Socket) => unknown
  /** The server closes its port, so that connections are refused. */
  readonly isClosed?: boolean
  /** Hosters speak chat, so a server with another dialect is part of the configuration. */
  readonly speaks?: Exclude<Dialect, 'chat'>
  /** Default: chat. */
  readonly features?: readonly Feature[]
  readonly load: ServerLoad
}

/** How the customer uses a hostile server. */
export interface ServerLoad {
  /** Undefined: streams and whole answers in turns. */
  readonly stream?: boolean | undefined
  readonly ratePerS: number
  /** At this many unanswered requests, no more are sent. */
  readonly inFlightMax: number
  /** More fields of the body. */
  readonly body?: object
  /** The request in place of one of chat. */
  readonly request?: (model: string, stream: boolean) => Request
}

export interface Request {
  /** Default POST with a body, else GET. */
  readonly method?: string
  /** Default `/v1/chat/completions`. */
  readonly path?: string
  readonly headers?: Record<string, string>
  /** Bytes and text are sent as they are, an object as JSON. */
  readonly body?: Buffer | string | object
}

/** One request to a hostile server. */
export interface Turn {
  readonly socket: Socket
  /** Whether the gateway asked for a stream. */
  readonly stream: boolean
  /** Requests that this server received before. */
  readonly count: number
}

/** A customer with a valid key, or a stranger without one. */
export interface ClientBehaviour {
  readonly party: 'customer' | 'stranger'
  readonly name: string
  readonly what: string
  readonly customer?: HostileCustomer
  /** Runs until the signal is aborted. */
  readonly run: (target: Target) => Promise<void>
}

export interface HostileCustomer {
  /** Default 5: too little for a bulk lease. */
  readonly creditUsd?: number
  /** Default `bench`, without limits. */
  readonly tier?: 'bench' | 'free' | 'scale'
}

/** What a hostile client can use. */
export interface Target {
  /** `http://127.0.0.1:PORT` */
  readonly origin: string
  /** The headers of the hostile customer. */
  readonly headers: Record<string, string>
  /** Aborted when the behaviour must end. */
  readonly signal: AbortSignal
  /** Notes one event for the report, such as a status. */
  readonly note: (event: string | number) => void
}

/** Calls `act` at a fixed rate, whether or not earlier calls have ended, until the signal is aborted. */
export async function atRate(ratePerS: number, signal: AbortSignal, act: () => unknown): Promise<void> {
  const startMs = performance.now()
  for (let done = 0; !signal.aborted; ) {
    // A late timer is made up for.
    for (const due = ((performance.now() - startMs) / 1000) * ratePerS; done < due && !signal.aborted; done++)
      void act()
    await new Promise(resolve => setTimeout(resolve, Math.min(50, 1000 / ratePerS)))
  }
}
