import { countTokens } from '../dialects/tokens/count-tokens.ts'
import { type ChatRequest, messageText } from './chat-request.ts'

/**
 * Counts the tokens of a prompt by OpenAI's published rule: 3 for each message plus its role, text and name (1
 * more for a name), and 3 for the start of the answer. Tool calls and tool definitions count as their JSON.
 * Images cost nothing, because the demo ignores them.
 * @param stopAbove counting stops above this, so that a prompt far beyond the context window takes no longer
 * than the window
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
