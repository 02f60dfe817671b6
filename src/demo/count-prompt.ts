import { countTokens } from '../dialects/tokens/count-tokens.ts'
import { type ChatRequest, messageText } from './chat-request.ts'

/**
 * Tokens of a prompt by OpenAI's published rule: each message costs 3 besides its role, text and name (a name 1 more),
 * the answer's start costs 3. Tool calls and tool definitions count as their JSON; images cost nothing, nobody looks.
 * @param stopAbove counting ends above this, so that a prompt far beyond the context window costs no more than the window.
 */
export function countPrompt(request: Pick<ChatRequest, 'messages'> & { tools: unknown }, stopAbove: number): number {
  let count = 3
  const add = (text: string) => {
    if (count <= stopAbove) count += countTokens(text, stopAbove - count)
  }
  for (const message of request.messages) {
    count += 3
    add(message.role)
    add(messageText(message.content))
    if (message.name) {
      count += 1
      add(message.name)
    }
    if (message.tool_calls) add(JSON.stringify(message.tool_calls))
  }
  if (Array.isArray(request.tools) && request.tools.length > 0) add(JSON.stringify(request.tools))
  return count
}
