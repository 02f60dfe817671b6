import { referenceAnswersFor } from '../compare-answer.ts'
import type { AskedAnswer } from './ask-offer.ts'

type Body = Readonly<Record<string, unknown>>
/** Null: no answer. */
type Ask = (body: Body) => Promise<AskedAnswer | null>

/**
 * Asks a reference what a hoster was asked, as often as `compareAnswer` needs: once at temperature 0 with log
 * probabilities if it has them, else in the same way. Empty: it did not answer, or its answers would tell nothing.
 *
 * @param askLikeliest asks for log probabilities. Null: the reference has none.
 */
export async function askReferenceLike(body: Body, ask: Ask, askLikeliest: Ask = ask): Promise<readonly AskedAnswer[]> {
  const { stream: _stream, logprobs: _logprobs, top_logprobs: _top, ...plain } = body
  const temperature = typeof body.temperature === 'number' ? body.temperature : undefined
  const likeliest = hasPlainChoice(body) ? await askLikeliest(likeliestBody(plain)) : null
  if (likeliest !== null && (temperature === 0 || likeliest.topTokens.length > 0)) return [likeliest]
  if (!isTelling(body)) return []
  const answers: AskedAnswer[] = []
  while (answers.length < referenceAnswersFor(temperature)) {
    const answer = await ask(plain)
    if (answer === null) return []
    answers.push(answer)
    if (!isPlain(answer)) break
  }
  return answers
}

/** Answers of one model have parted by then, and longer ones cost the house more. */
const COMPARED_TOKENS = 256
/** OpenAI and vLLM list at most so many tokens at each position. */
const TOP_LOGPROBS = 20

/** Asks a reference for the likeliest tokens. */
function likeliestBody(body: Body): Body {
  const { max_tokens: limit } = body
  const maxTokens = typeof limit === 'number' ? Math.min(limit, COMPARED_TOKENS) : COMPARED_TOKENS
  return { ...body, temperature: 0, max_tokens: maxTokens, logprobs: true, top_logprobs: TOP_LOGPROBS }
}

/** Below these, hardware decides more than chance. */
const [TEMPERATURE_MIN, TOP_P_MIN, TOP_K_MIN] = [0.5, 0.5, 5]

/**
 * Whether two answers of a reference without log probabilities say how far apart its answers are. An answer that is
 * nearly certain, but not greedy, parts from those of honest servers more often than two answers of one server do.
 */
function isTelling({ temperature, top_p: topP, top_k: topK }: Body): boolean {
  if (temperature === 0) return true
  if (typeof temperature === 'number' && temperature < TEMPERATURE_MIN) return false
  if (typeof topP === 'number' && topP < TOP_P_MIN) return false
  return typeof topK !== 'number' || topK <= 0 || topK >= TOP_K_MIN
}

/** Fields with which the likeliest token, by the log probabilities, is not always the one that is chosen. */
const choiceFields = ['presence_penalty', 'frequency_penalty', 'repetition_penalty', 'logit_bias', 'response_format']

function hasPlainChoice(body: Body): boolean {
  return choiceFields.every(name => body[name] === undefined || body[name] === 0)
}

/** Whether an answer has text only. */
export function isPlain({ text, hasOther }: AskedAnswer): boolean {
  return hasOther !== true && !text.trimStart().startsWith('<think')
}
