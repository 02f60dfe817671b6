import { type Behaviour, sse, status, usageOf } from './scripted-upstream.ts'

export interface TextOptions {
  /** The text of each choice. Default: one choice, "a ferry crosses". */
  readonly texts?: readonly string[]
  readonly finishReason?: string
  /** null: no usage. */
  readonly usage?: ReturnType<typeof usageOf> | null
  readonly logprobs?: object
}

/** A correct answer to a completions request: a stream of words if the request asks for one. */
export function textCompletion(options: TextOptions = {}): Behaviour {
  const { texts = ['a ferry crosses'], finishReason = 'stop', usage = usageOf(5, 4), logprobs = null } = options
  const head = { id: 'cmpl-upstream', object: 'text_completion', created: 1, model: 'theirs' }
  return async (request, response) => {
    if (request.body.stream !== true) {
      const choices = texts.map((text, index) => ({ index, text, logprobs, finish_reason: finishReason }))
      return status(200, { ...head, choices, ...(usage && { usage }) })(request, response)
    }
    const part = (index: number, text: string, finish_reason: string | null) => ({
      ...head,
      choices: [{ index, text, logprobs, finish_reason }],
    })
    const events = texts.flatMap((text, index) => [
      ...text.split(/(?<= )/).map(word => part(index, word, null)),
      part(index, '', finishReason),
    ])
    await sse([...events, ...(usage ? [{ ...head, choices: [], usage }] : []), '[DONE]'])(request, response)
  }
}
