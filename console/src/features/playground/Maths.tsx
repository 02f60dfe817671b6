import katex, { type KatexOptions } from 'katex'
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
 * A formula, drawn by KaTeX, and as MathML for screen readers. HTML as a text would need a policy that allows styles in
 * attributes. What KaTeX cannot read stays as it was written.
 */
function Formula({ tex }: { tex: string }) {
  const place = useRef<HTMLSpanElement>(null)
  const [isWrong, setWrong] = useState(false)
  const isDisplay = tex.startsWith(DISPLAY)
  useLayoutEffect(() => {
    try {
      place.current!.replaceChildren(drawn(isDisplay ? tex.slice(DISPLAY.length) : tex, isDisplay))
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

/** An element that KaTeX has planned, with what is below it. Texts and paths have neither attributes nor children. */
interface Planned {
  readonly attributes?: Record<string, string>
  readonly children?: readonly Planned[]
}

/** How `katex.render` draws too. Its types do not have it, because it may change: see playground-talks.test.ts. */
const { __renderToDomTree: plan } = katex as unknown as {
  readonly __renderToDomTree: (tex: string, options: KatexOptions) => Planned & { toNode(): Node }
}

/**
 * Draws a formula. A few parts, such as the arrow of `\vec`, have their style as an attribute, which the content security
 * policy refuses. It allows the same style when a script sets it.
 *
 * @throws if KaTeX cannot read it
 */
function drawn(tex: string, isDisplay: boolean): DocumentFragment {
  const planned = plan(tex, {
    displayMode: isDisplay,
    throwOnError: true,
    strict: 'ignore',
    trust: false,
    maxSize: SIZE_EM_MAX,
    maxExpand: EXPANSIONS_MAX,
  })
  setStylesAside(planned)
  const formula = document.createDocumentFragment()
  formula.append(planned.toNode())
  for (const styled of formula.querySelectorAll<HTMLElement>('[data-style]')) {
    styled.style.cssText = styled.dataset.style ?? ''
    delete styled.dataset.style
  }
  return formula
}

function setStylesAside({ attributes, children = [] }: Planned): void {
  if (attributes?.style !== undefined) {
    attributes['data-style'] = attributes.style
    delete attributes.style
  }
  for (const child of children) setStylesAside(child)
}
