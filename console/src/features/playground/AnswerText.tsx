import { t } from '@lingui/core/macro'
import {
  type ComponentProps,
  isValidElement,
  lazy,
  memo,
  type ReactNode,
  Suspense,
  useEffect,
  useMemo,
  useState,
} from 'react'
import Markdown from 'react-markdown'
import remarkGfm from 'remark-gfm'
import { fromGateway } from '../../api/gateway-link.ts'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { markdownWithMaths } from './markdown-with-maths.ts'
import styles from './playground.module.css'

/** Loads with the first code in a known language. */
const CodeInColors = lazy(fromGateway(async () => ({ default: (await import('./CodeInColors.tsx')).CodeInColors })))

/** Loads with the first formula. */
const loadMaths = fromGateway(() => import('./Maths.tsx'))

/** No images: the address of an image carries data out. No links: an answer must not lead people away. */
const shownElements = [
  ...['p', 'strong', 'em', 'del', 'code', 'pre', 'ul', 'ol', 'li', 'blockquote', 'br', 'hr', 'input'],
  ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'table', 'thead', 'tbody', 'tr', 'th', 'td'],
]

type Components = NonNullable<ComponentProps<typeof Markdown>['components']>

/** Headings of an answer stand below the one of its message, which is an h3. */
const components: Components = {
  h1: ({ children }) => <h4>{children}</h4>,
  h2: ({ children }) => <h5>{children}</h5>,
  h3: ({ children }) => <h6>{children}</h6>,
  h4: ({ children }) => <h6>{children}</h6>,
  h5: ({ children }) => <h6>{children}</h6>,
  // A task of a list.
  input: ({ checked }) => <span>{checked ? '☑ ' : '☐ '}</span>,
  table: ({ children }) => (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, which the keyboard needs
    <section className={styles.wide} tabIndex={0} aria-label={t`Table in the answer`}>
      <table>{children}</table>
    </section>
  ),
  pre: ({ children }) => <CodeOfAnswer>{children}</CodeOfAnswer>,
}

const plugins = [remarkGfm]

/** An answer, drawn from its Markdown. */
export const AnswerText = memo(function AnswerText({ text }: { text: string }) {
  const { markdown, hasMaths } = markdownWithMaths(text)
  const maths = useMaths(hasMaths)
  const drawn = useMemo(() => (maths === null ? components : { ...components, code: maths.CodeOrFormula }), [maths])
  return (
    <Markdown
      remarkPlugins={maths === null ? plugins : maths.pluginsWithMaths}
      allowedElements={shownElements}
      unwrapDisallowed
      components={drawn}
    >
      {maths === null ? text : markdown}
    </Markdown>
  )
})

/** What draws formulas. Null without one, and until it has loaded. */
function useMaths(isNeeded: boolean) {
  const [maths, setMaths] = useState<typeof import('./Maths.tsx') | null>(null)
  useEffect(() => {
    if (isNeeded) void loadMaths().then(setMaths)
  }, [isNeeded])
  return isNeeded ? maths : null
}

/** A block of code, with its language and a button that copies it. */
function CodeOfAnswer({ children }: { children: ReactNode }) {
  const { className = '' } = isValidElement<{ className?: string }>(children) ? children.props : {}
  const language = /language-([\w+#-]+)/.exec(className)?.[1]
  const code = textOf(children)
  return (
    <div className={styles.code}>
      <div className={styles.codeHead}>
        <span>{language ?? t`code`}</span>
        <CopyButton text={code} what={t`the code`} />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, which the keyboard needs */}
      <pre tabIndex={0}>
        {language === undefined ? (
          <code>{code}</code>
        ) : (
          <Suspense fallback={<code>{code}</code>}>
            <CodeInColors code={code} language={language} />
          </Suspense>
        )}
      </pre>
    </div>
  )
}

function textOf(node: ReactNode): string {
  if (typeof node === 'string') return node
  if (Array.isArray(node)) return node.map(textOf).join('')
  return isValidElement<{ children?: ReactNode }>(node) ? textOf(node.props.children) : ''
}
