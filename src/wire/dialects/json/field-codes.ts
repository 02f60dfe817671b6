import { fieldSentences, ruleSentences } from '../../../base/domain/field-sentences.ts'
import { type CodedSentence, sentencesIn, sentencesOf } from '../../../base/domain/said.ts'

const say = sentencesOf(fieldSentences)
const findRule = sentencesIn(ruleSentences)

/** Returns the sentences for a field whose value a rule refuses, or that is missing. Empty: the rule has no code. */
export function fieldCodes(field: string, rule: string, isMissing: boolean): readonly CodedSentence[] {
  const found = findRule(rule)
  if (found.length === 0) return []
  const { codes } = isMissing ? say('field.missing', { field }) : say('field.wrong', { field })
  return [...codes, ...found]
}
