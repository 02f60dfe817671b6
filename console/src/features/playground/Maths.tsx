import katex from 'katex'
import 'katex/dist/katex.min.css'
import { type ComponentProps, useLayoutEffect, useRef, useState } from 'react'
import type Markdown from 'react-markdown'
import remarkGfm from 'remark-gfm'
import remarkMath from 'remark-math'
import { DISPLAY } from './markdown-with-maths.ts'
import styles from './playground.module.css'

/** A single dollar is a price: markdownWithMaths has doubled those of formulas. */
export const pluginsWithMaths: ComponentProps<typeof Markdown>['remarkPlugins'] = [
  remarkGfm,
  [remarkMath, { singleDollarTextMath: false }],
]

type CodeElement = NonNullable<NonNullable<ComponentProps<typeof Markdown>['components']>['code']>

/** Code in a line of text, or a formula, which remark-math marks as such code. */
export const CodeOrFormula: CodeElement = ({ className, children }) =>
  className?.includes('math-inline') ? (
    <Formula tex={String(children)} />
  ) : (
    <code className={className}>{children}</code>
  )

/** Bounds for a formula that would fill the page or the memory. */
const SIZE_EM_MAX = 20
const EXPANSIONS_MAX = 500

/**
 * A formula, drawn by KaTeX into an element, and as MathML for screen readers. HTML as a text would need a policy that
 * allows styles in attributes. What KaTeX cannot read stays as it was written.
 */
function Formula({ tex }: { tex: string }) {
  const place = useRef<HTMLSpanElement>(null)
  const [isWrong, setWrong] = useState(false)
  const isDisplay = tex.startsWith(DISPLAY)
  useLayoutEffect(() => {
    try {
      katex.render(isDisplay ? tex.slice(DISPLAY.length) : tex, place.current!, {
        displayMode: isDisplay,
        throwOnError: true,
        strict: 'ignore',
        trust: false,
        maxSize: SIZE_EM_MAX,
        maxExpand: EXPANSIONS_MAX,
      })
      setWrong(false)
    } catch {
      place.current!.replaceChildren()
      setWrong(true)
    }
  }, [tex, isDisplay])
  return (
    <>
      <span ref={place} className={styles.formula} />
      {isWrong && <code>{tex}</code>}
    </>
  )
}
