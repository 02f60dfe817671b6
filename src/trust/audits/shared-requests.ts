import type { ChatJob } from '../../domain/chat-job.ts'

/** A request of a customer that shares its requests for audits. Kept in memory for minutes, never stored. */
export interface SharedRequest {
  readonly customerId: string
  /** The body of /v1/chat/completions without `model`. */
  readonly body: Readonly<Record<string, unknown>>
  readonly modelId: string
  /** The hoster that answered it; null for a server of the operator. */
  readonly hosterId: string | null
  readonly constraints: ChatJob['constraints']
}

/** The latest requests that customers share, of this process. */
export interface SharedRequests {
  add(request: SharedRequest): void
  /**
   * Takes one that the hoster has not answered, of a customer that is not related to it; undefined if there is none. Each is taken once.
   *
   * @param related the customers that are related to the hoster
   */
  take(modelId: string, hosterId: string, related: ReadonlySet<string>): SharedRequest | undefined
}

/** How requests of customers are asked, without their text. */
export interface Manners {
  /** The fields of the body besides the messages and the tools, such as `temperature`, `max_tokens` and `stream`. */
  readonly fields: Readonly<Record<string, unknown>>
  /** Time since the request of a customer before it, ms. */
  readonly gapMs: number
}

/** The manners of the latest requests of this process. */
export interface RecentManners {
  note(fields: Readonly<Record<string, unknown>>, atMs: number): void
  /** Draws those of one request; undefined before the first. */
  draw(): Manners | undefined
}
