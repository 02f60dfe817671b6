/** How many tokens honest servers of a model report for one token that the gateway counts. */
export interface MeterRatio {
  readonly input: number
  readonly output: number
}

/** For models that are not measured yet: the gateway's tokenizer counts like theirs. */
export const evenRatio: MeterRatio = { input: 1, output: 1 }

/**
 * A learned ratio stays within these bounds. Tokenizers of current models differ by less for English text and code. A
 * group of hosters that learns the gateway a false ratio therefore gains at most the upper bound.
 */
export const RATIO_MIN = 0.7
export const RATIO_MAX = 1.5

/** The slack for honest differences between chat templates, versions of a tokenizer and kinds of text. */
export const REPORT_SLACK = 1.05
export const REPORT_SLACK_TOKENS = 8

/**
 * Returns the tokens that a report is worth: the report while it is within the band around the expected one, otherwise
 * the expected one, which is the gateway's count x ratio, rounded up and never above the report.
 */
export function believedTokens(
  reported: number,
  counted: number,
  ratio: number,
): { readonly tokens: number; readonly isOverReport: boolean } {
  const expected = counted * ratio
  if (reported <= expected * REPORT_SLACK + REPORT_SLACK_TOKENS) return { tokens: reported, isOverReport: false }
  return { tokens: Math.min(reported, Math.ceil(expected)), isOverReport: true }
}
