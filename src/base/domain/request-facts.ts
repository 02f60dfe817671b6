import type { ChatJob, Feature, SourceRequest } from './chat-job.ts'

/**
 * What a request uses, so its offer must support it. `citations` and `native_tools` (tools that only Anthropic's models
 * know, such as a computer) exist only in the dialect `messages`, and need a server that speaks it.
 */
export type RequestFeature = Feature | 'documents' | 'citations' | 'native_tools'

/** What admission, routing, dispatch and settlement need to know of a request, whatever its dialect. */
export interface RequestFacts extends Omit<ChatJob, 'features' | 'forward' | 'extraFields' | 'source'> {
  readonly features: ReadonlySet<RequestFeature>
}

/** A parsed request of a dialect other than chat. */
export interface ParsedRequest extends SourceRequest {
  readonly facts: RequestFacts
}
