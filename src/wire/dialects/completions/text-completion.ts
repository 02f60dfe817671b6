import type { ChatChunk, ChatCompletion, Envelope, TokenUsage } from '../../../base/domain/completion.ts'
import type { ApiError } from '../../../base/domain/errors.ts'
import { chatStream } from '../chat/chat-stream.ts'
import type { AnswerFormat, StreamEncoder, StreamFormat } from '../client-dialect.ts'

/** Text completions as OpenAI sends them, made of answers in the shape of chat. */

export const textAnswer: AnswerFormat = {
  encode(answer) {
    const { id, created, model, choices } = answer as ChatCompletion
    return JSON.stringify({
      ...headOf({ id, created, model }),
      choices: choices.map(({ index, message, logprobs, finish_reason }) => ({
        index,
        text: message.content ?? '',
        logprobs: logprobs ?? null,
        finish_reason,
      })),
    })
  },
  withUsage: (text, usage) => `${text.slice(0, -1)},"usage":${JSON.stringify(usage)}}`,
}

export const textStream: StreamFormat = {
  ...chatStream,
  encoder: (envelope, { includeUsage }) => new TextStreamEncoder(envelope, includeUsage),
}

class TextStreamEncoder implements StreamEncoder {
  readonly #chat: StreamEncoder
  readonly #envelope: Envelope
  readonly #includeUsage: boolean
  /** Text chunks of one stream differ only in their text, so what surrounds it is encoded once. */
  readonly #textHead: string
  readonly #textTail: string

  constructor(envelope: Envelope, includeUsage: boolean) {
    this.#chat = chatStream.encoder(envelope, { includeUsage })
    this.#envelope = envelope
    this.#includeUsage = includeUsage
    const event = this.#event([{ index: 0, text: '', logprobs: null, finish_reason: null }])
    const gap = event.lastIndexOf('""')
    this.#textHead = event.slice(0, gap)
    this.#textTail = event.slice(gap + 2)
  }

  text(content: string): string {
    return this.#textHead + JSON.stringify(content) + this.#textTail
  }

  /** A chunk that only opens a choice has no counterpart in text completions: returns an empty text. */
  chunk({ choices }: ChatChunk): string {
    const parts = choices.flatMap(({ index, delta, logprobs, finish_reason }) => {
      const text = delta.content ?? ''
      if (text === '' && finish_reason === null && !logprobs) return []
      return [{ index, text, logprobs: logprobs ?? null, finish_reason }]
    })
    return parts.length === 0 ? '' : this.#event(parts)
  }

  textChunk(content: string): ChatChunk {
    return this.#chat.textChunk(content)
  }

  end(usage: TokenUsage): string {
    const last = this.#includeUsage ? eventOf({ ...headOf(this.#envelope), choices: [], usage }) : ''
    // The usage chunk of chat is replaced; its end is the same.
    return last + DONE
  }

  fail(error: ApiError): string {
    return this.#chat.fail(error)
  }

  #event(choices: object[]): string {
    const usage = this.#includeUsage ? { usage: null } : {}
    return eventOf({ ...headOf(this.#envelope), choices, ...usage })
  }
}

const DONE = 'data: [DONE]\n\n'
const CHAT_ID_PREFIX = 'chatcmpl-'

function headOf({ id, created, model }: Envelope) {
  // `join` makes one flat string: see `createEnvelope`.
  return { id: ['cmpl-', id.slice(CHAT_ID_PREFIX.length)].join(''), object: 'text_completion', created, model }
}

function eventOf(body: object): string {
  return `data: ${JSON.stringify(body)}\n\n`
}
