import type { Conversation, Effort, Part, Seal, Tool, ToolChoice } from '../../../base/domain/conversation.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { customToolSchema } from '../tool-arguments.ts'
import { flatToolName, pairToolCalls } from '../tool-names.ts'
import { ContentWriter } from './write-content.ts'

/**
 * Returns the body of a `generateContent` request for a conversation that came in another dialect. Leaves out what the
 * dialect cannot express: cache points and keys, verbosity, parallel calls, strict schemas, end users and reasoning
 * that Google did not seal.
 *
 * @param maxTokens null: the upstream's default
 */
export function geminiRequestBody(conversation: Conversation, maxTokens: number | null): JsonObject {
  const { system, tools, toolChoice } = conversation
  const body: JsonObject = { contents: contents(conversation) }
  if (system.length > 0) body.systemInstruction = { parts: system.map(({ text }) => ({ text })) }
  if (tools.length > 0) {
    const declared = tools.filter(({ isPredefined }) => !isPredefined)
    if (declared.length > 0) body.tools = [{ functionDeclarations: declared.map(declaration) }]
    if (toolChoice !== null) body.toolConfig = { functionCallingConfig: callingConfig(toolChoice) }
  }
  const generationConfig = generation(conversation, maxTokens)
  if (Object.keys(generationConfig).length > 0) body.generationConfig = generationConfig
  return body
}

/** Turns of the model and the user alternate. Instructions after the first turn become text of the user. */
function contents({ turns }: Conversation): JsonObject[] {
  const writer = new ContentWriter()
  const list: { role: 'user' | 'model'; parts: JsonObject[] }[] = []
  for (const turn of pairToolCalls(turns)) {
    const role = turn.role === 'assistant' ? 'model' : 'user'
    const parts = writer.write(turn.parts.flatMap(movedSeals))
    if (parts.length === 0) continue
    const last = list.at(-1)
    if (last?.role === role) last.parts.push(...parts)
    else list.push({ role, parts })
  }
  return list
}

/**
 * Moves the seal of reasoning to the call after it, where Gemini expects it. Dialects without
 * seals on calls carry it in the reasoning before the call.
 */
function movedSeals(part: Part, index: number, parts: readonly Part[]): Part[] {
  const previous = parts[index - 1]
  if (part.kind === 'reasoning') {
    const next = parts[index + 1]
    if (part.seal?.family !== 'google') return []
    if (next?.kind !== 'tool_call' || next.seal !== undefined) return [part]
    return part.text === '' ? [] : [{ kind: 'reasoning', text: part.text, seal: emptySeal }]
  }
  if (part.kind !== 'tool_call' || part.seal !== undefined) return [part]
  return previous?.kind === 'reasoning' && previous.seal?.family === 'google'
    ? [{ ...part, seal: previous.seal }]
    : [part]
}

const emptySeal: Seal = { family: 'google', data: '' }

function declaration({ kind, name, namespace, description, parameters }: Tool): JsonObject {
  const schema = kind === 'custom' ? customToolSchema : parameters
  return {
    name: flatToolName({ name, namespace }),
    ...(description !== null && { description }),
    ...(schema !== null && { parametersJsonSchema: schema }),
  }
}

function callingConfig(choice: ToolChoice): JsonObject {
  if (choice.kind !== 'only') return { mode: modes[choice.kind] }
  return { mode: 'ANY', allowedFunctionNames: [flatToolName(choice)] }
}

const modes = { auto: 'AUTO', none: 'NONE', must: 'ANY' } as const

const thinkingLevels: Record<Effort, string> = {
  // The lowest level there is: models from Gemini 3 on cannot stop thinking.
  none: 'MINIMAL',
  minimal: 'MINIMAL',
  low: 'LOW',
  medium: 'MEDIUM',
  high: 'HIGH',
  xhigh: 'HIGH',
  max: 'HIGH',
}

function generation({ sampling, reasoning, outputFormat }: Conversation, maxTokens: number | null): JsonObject {
  const config: JsonObject = {}
  if (maxTokens !== null) config.maxOutputTokens = maxTokens
  if (sampling.temperature !== null) config.temperature = sampling.temperature
  if (sampling.topP !== null) config.topP = sampling.topP
  if (sampling.topK !== null) config.topK = sampling.topK
  if (sampling.presencePenalty !== null) config.presencePenalty = sampling.presencePenalty
  if (sampling.frequencyPenalty !== null) config.frequencyPenalty = sampling.frequencyPenalty
  if (sampling.seed !== null) config.seed = sampling.seed
  if (sampling.stop.length > 0) config.stopSequences = sampling.stop
  if (outputFormat !== null) config.responseMimeType = 'application/json'
  if (outputFormat?.kind === 'json_schema') config.responseJsonSchema = outputFormat.schema
  const { effort, isShown } = reasoning
  if (effort !== null || isShown !== null) {
    config.thinkingConfig = {
      ...(effort !== null && { thinkingLevel: thinkingLevels[effort] }),
      ...(isShown !== null && { includeThoughts: isShown }),
    }
  }
  return config
}
