const messages = [{ role: 'user', content: 'Where does this car go?' }]

export const wholeBody = JSON.stringify({ model: 'bench', messages, max_tokens: 128 })

const stream = {
  model: 'bench',
  messages,
  // More than enough: gateways that enforce the limit may count the tokens of a time stamp differently.
  max_tokens: 1024,
  stream: true,
  stream_options: { include_usage: true },
}
/** 100 chunks, 50 a second. */
export const streamBody = JSON.stringify(stream)
/** 60 chunks, 20 a second: see upstream.ts. */
export const slowStreamBody = JSON.stringify({ ...stream, user: 'slow' })
