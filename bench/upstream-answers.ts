/** The answers of a model server in one dialect, in ASCII. The events of a stream follow those that the vendors send. */
export type UpstreamAnswers = {
  /** The body of a whole answer. */
  whole: string
  /** The events before the first text. */
  start: string
  /** The event with a text. `at` counts them from 0. */
  text(text: string, at: number): string
  /** The events after the last text. */
  end(chunks: number, includeUsage: boolean): string
}

/** Returns the answers for the head of a request: those of chat, unless its path names another dialect. */
export function answersAt(head: string): UpstreamAnswers {
  const path = head.slice(0, head.indexOf('\r\n'))
  if (path.includes('/messages ')) return messages
  if (path.includes('/responses ')) return responses
  return path.includes('enerateContent') ? gemini : chat
}

const INPUT_TOKENS = 16
const WHOLE_OUTPUT_TOKENS = 20
const CREATED_S = 1_770_000_000
/** The length of a whole answer of chat. Those of other dialects have the same text. */
const WHOLE_CHAT_BYTES = 300

const chatUsage = (chunks: number) => ({
  prompt_tokens: INPUT_TOKENS,
  completion_tokens: chunks,
  total_tokens: INPUT_TOKENS + chunks,
})

function chatCompletion(content: string): string {
  return JSON.stringify({
    id: 'chatcmpl-bench',
    object: 'chat.completion',
    created: CREATED_S,
    model: 'bench',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: chatUsage(WHOLE_OUTPUT_TOKENS),
  })
}

const wholeText = 'A switchyard sorts each car onto the track that takes it where it wants to go. '
  .repeat(4)
  .slice(0, WHOLE_CHAT_BYTES - chatCompletion('').length)

function chatEvent(rest: object): string {
  const head = { id: 'chatcmpl-bench', object: 'chat.completion.chunk', created: CREATED_S, model: 'bench' }
  return `data: ${JSON.stringify({ ...head, ...rest })}\n\n`
}

const chatChunk = (delta: object, finish_reason: string | null = null) =>
  chatEvent({ choices: [{ index: 0, delta, finish_reason }] })

const chatFinish = chatChunk({}, 'stop')
const [beforeChatText, afterChatText] = around(chatChunk({ content: '@' }))

const chat: UpstreamAnswers = {
  whole: chatCompletion(wholeText),
  start: chatChunk({ role: 'assistant', content: '' }),
  text: text => beforeChatText + text + afterChatText,
  end: (chunks, includeUsage) =>
    `${chatFinish}${includeUsage ? chatEvent({ choices: [], usage: chatUsage(chunks) }) : ''}data: [DONE]\n\n`,
}

function namedEvent(data: { type: string }): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`
}

const messagesUsage = { input_tokens: INPUT_TOKENS, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
const message = { id: 'msg_bench', type: 'message', role: 'assistant', model: 'bench' }
const [beforeMessagesText, afterMessagesText] = around(
  namedEvent({ type: 'content_block_delta', ...{ index: 0, delta: { type: 'text_delta', text: '@' } } }),
)

const messages: UpstreamAnswers = {
  whole: JSON.stringify({
    ...message,
    content: [{ type: 'text', text: wholeText }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { ...messagesUsage, output_tokens: WHOLE_OUTPUT_TOKENS },
  }),
  start: [
    {
      type: 'message_start',
      message: { ...message, content: [], stop_reason: null, usage: { ...messagesUsage, output_tokens: 1 } },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'ping' },
  ]
    .map(namedEvent)
    .join(''),
  text: text => beforeMessagesText + text + afterMessagesText,
  end: chunks =>
    [
      { type: 'content_block_stop', index: 0 },
      {
        type: 'message_delta',
        delta: { stop_reason: 'end_turn', stop_sequence: null },
        usage: { ...messagesUsage, output_tokens: chunks },
      },
      { type: 'message_stop' },
    ]
      .map(namedEvent)
      .join(''),
}

/** The text at the end of a stream of responses repeats the deltas; only its length matters here. */
const DELTA_LENGTH = 7

const responseUsage = (chunks: number) => ({
  input_tokens: INPUT_TOKENS,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: chunks,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: INPUT_TOKENS + chunks,
})
const response = (status: string, output: object[], usage: object | null) => ({
  ...{ id: 'resp_bench', object: 'response', created_at: CREATED_S, status, error: null, incomplete_details: null },
  ...{ instructions: null, max_output_tokens: 128, model: 'bench', output, parallel_tool_calls: true },
  ...{ previous_response_id: null, reasoning: { effort: null, summary: null }, store: false, temperature: 1 },
  ...{ text: { format: { type: 'text' } }, tool_choice: 'auto', tools: [], top_p: 1, truncation: 'disabled', usage },
})
const textPart = (text: string) => ({ type: 'output_text', annotations: [], logprobs: [], text })
const item = (status: string, content: object[]) => ({
  ...{ id: 'msg_bench', type: 'message', status, content, role: 'assistant' },
})
const atText = { item_id: 'msg_bench', output_index: 0, content_index: 0 }
const sequenced = (events: { type: string }[], from: number) =>
  events.map(({ type, ...rest }, at) => namedEvent({ type, ...{ sequence_number: from + at, ...rest } })).join('')
const RESPONSE_START_EVENTS = 4
/** OpenAI pads each delta with random letters, so that its length does not show the text. */
const padding = 'aB3dE6gH9'
const [beforeSequence, afterSequence] = around(
  namedEvent({ type: 'response.output_text.delta', ...{ sequence_number: '@', ...atText, delta: '@', logprobs: [] } }),
  '"@"',
)
const [betweenSequenceAndText, afterResponseText] = around(afterSequence, '@')

const responses: UpstreamAnswers = {
  whole: JSON.stringify(
    response('completed', [item('completed', [textPart(wholeText)])], responseUsage(WHOLE_OUTPUT_TOKENS)),
  ),
  start: sequenced(
    [
      { type: 'response.created', ...{ response: response('in_progress', [], null) } },
      { type: 'response.in_progress', ...{ response: response('in_progress', [], null) } },
      { type: 'response.output_item.added', ...{ output_index: 0, item: item('in_progress', []) } },
      { type: 'response.content_part.added', ...{ ...atText, part: textPart('') } },
    ],
    0,
  ),
  text: (text, at) =>
    beforeSequence +
    (RESPONSE_START_EVENTS + at) +
    betweenSequenceAndText +
    text +
    afterResponseText.replace('}\n', `,"obfuscation":"${padding.slice(at % padding.length)}"}\n`),
  end: chunks => {
    const text = 'x'.repeat(chunks * DELTA_LENGTH)
    const whole = item('completed', [textPart(text)])
    return sequenced(
      [
        { type: 'response.output_text.done', ...{ ...atText, text, logprobs: [] } },
        { type: 'response.content_part.done', ...{ ...atText, part: textPart(text) } },
        { type: 'response.output_item.done', ...{ output_index: 0, item: whole } },
        { type: 'response.completed', ...{ response: response('completed', [whole], responseUsage(chunks)) } },
      ],
      RESPONSE_START_EVENTS + chunks,
    )
  },
}

const geminiAnswer = (text: string, tokens: number, ending: object = {}) =>
  JSON.stringify({
    candidates: [{ content: { parts: [{ text }], role: 'model' }, ...ending, index: 0 }],
    usageMetadata: {
      promptTokenCount: INPUT_TOKENS,
      candidatesTokenCount: tokens,
      totalTokenCount: INPUT_TOKENS + tokens,
      promptTokensDetails: [{ modality: 'TEXT', tokenCount: INPUT_TOKENS }],
    },
    modelVersion: 'bench',
    responseId: 'bench',
  })

/** Gemini reports the usage in each event. */
const gemini: UpstreamAnswers = {
  whole: geminiAnswer(wholeText, WHOLE_OUTPUT_TOKENS, { finishReason: 'STOP' }),
  start: '',
  text: (text, at) => `data: ${geminiAnswer(text, at + 1)}\n\n`,
  end: chunks => `data: ${geminiAnswer('', chunks, { finishReason: 'STOP' })}\n\n`,
}

export const allAnswers: readonly UpstreamAnswers[] = [chat, messages, responses, gemini]

/** Returns what comes before and after the first `mark`. */
function around(text: string, mark = '@'): [before: string, after: string] {
  const at = text.indexOf(mark)
  return [text.slice(0, at), text.slice(at + mark.length)]
}
