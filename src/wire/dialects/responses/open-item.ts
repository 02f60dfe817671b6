import type { JsonObject } from '../../../base/runtime/json-object.ts'
import type { OutputCallType } from './output-call.ts'

// The output item that is written.

export interface OpenReasoning {
  readonly kind: 'reasoning'
  readonly id: string
  text: string
}

export interface OpenMessage {
  readonly kind: 'message'
  readonly id: string
  readonly content: JsonObject[]
  /** The part that is written, at the index after `content`; null before the first. */
  part: 'output_text' | 'refusal' | null
  text: string
  /** The annotations of this part. */
  annotations: JsonObject[]
  /** The characters of text before this part; null until an annotation needs them. */
  textBefore: number | null
}

export interface OpenCall {
  readonly kind: 'call'
  readonly type: OutputCallType
  readonly item: JsonObject & { readonly id: string }
  text: string
}
