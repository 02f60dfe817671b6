import { countTokens, estimateTokens, SHORT_TEXT_UNITS } from '../tokens/count-tokens.ts'
import { type ChatRequest, messageText } from './chat-request.ts'

/**
 * Counts the tokens of a prompt by OpenAI's published rule: 3 for each message plus its role, text and name (1
 * more for a name), and 3 for the start of the answer. Tool calls and tool definitions count as their JSON.
 * Images cost nothing, because the demo ignores them. Long text is estimated: the demo shares the event loop of the
 * gateway.
 */
export function countPrompt(request: Pick<ChatRequest, 'messages'> & { tools: unknown }): number {
  const texts: string[] = []
  let count = 3
  for (const message of request.messages) {
    count += 3
    texts.push(message.role, messageText(message.content))
    if (message.name) {
      count += 1
      texts.push(message.name)
    }
    if (message.tool_calls) texts.push(JSON.stringify(message.tool_calls))
  }
  if (Array.isArray(request.tools) && request.tools.length > 0) texts.push(JSON.stringify(request.tools))
  return count + tokensOf(texts)
}

/** Counts the tokens of texts. Long ones are estimated. */
export function tokensOf(texts: readonly string[]): number {
  const units = texts.reduce((sum, text) => sum + text.length, 0)
  if (units > SHORT_TEXT_UNITS) return estimateTokens(texts.join('\n'))
  return texts.reduce((sum, text) => sum + countTokens(text), 0)
}
