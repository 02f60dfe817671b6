/** Answers have formulas in four forms. Code and escaped dollars come first, because they hide what looks like one. */
const parts = new RegExp(
  [
    // A block of code, also one that has not ended yet.
    /(?<code>(?<=^|\n)[ \t>]*(?<fence>`{3,}|~{3,})[^\n]*(?:\n[\s\S]*?(?:\n[ \t>]*\k<fence>[`~]*[ \t]*(?=\n|$)|$)|$))/,
    /(?<span>(?<!`)(?<ticks>`+)(?!`)[\s\S]{0,5000}?(?<!`)\k<ticks>(?!`))/,
    /(?<escaped>\\\\|\\\$)/,
    // The search for an end stops at the next beginning: thousands of beginnings would take quadratic time.
    /\\\[(?<bracketed>(?:[^\\]|\\(?!\[)[\s\S])+?)\\\]/,
    /\$\$(?<doubled>(?!\$)[\s\S]+?)\$\$/,
    /\\\((?<rounded>(?:[^\\]|\\(?!\()[\s\S])+?)\\\)/,
    // As Pandoc reads it: no blank inside of the dollars, and no digit behind them. "5$ and 10$" or "$5 or $10" are prices.
    /(?<![\w$])\$(?<single>(?![\s$])(?:[^$\n\\]|\\.)+?(?<!\s))\$(?![\w$])/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'g',
)

export interface MarkdownWithMaths {
  readonly markdown: string
  readonly hasMaths: boolean
}

/**
 * Writes all formulas of an answer as `$$...$$`, which remark-math then reads. Those that stand alone begin with
 * `\displaystyle` and have no line breaks, so that a list or a table around them stays whole.
 */
export function markdownWithMaths(answer: string): MarkdownWithMaths {
  let hasMaths = false
  const markdown = answer.replace(parts, (whole, ...rest) => {
    const found = rest.at(-1) as Record<string, string | undefined>
    const display = found.bracketed ?? found.doubled
    const tex = display ?? found.rounded ?? found.single
    if (tex === undefined || tex.trim() === '') return whole
    hasMaths = true
    const line = tex.trim().replace(/\s*\n\s*/g, ' ')
    return display === undefined ? `$$${line}$$` : `$$${DISPLAY} ${line}$$`
  })
  return { markdown, hasMaths }
}

/** Begins a formula that stands alone. */
export const DISPLAY = '\\displaystyle'
