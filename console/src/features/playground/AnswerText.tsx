import type { ComponentProps } from 'react'
import Markdown from 'react-markdown'
import { CopyButton } from '../../parts/CopyButton.tsx'
import styles from './playground.module.css'

/** No images: the address of an image carries data out. No links: an answer must not lead people away. */
const shownElements = [
  ...['p', 'strong', 'em', 'code', 'pre', 'ul', 'ol', 'li', 'blockquote', 'br', 'hr'],
  ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6'],
] as const

type Hast = { readonly value?: string; readonly children?: readonly Hast[] }

/** Headings of an answer stand below the one of its message, which is an h3. Code has a button that copies it. */
const components: ComponentProps<typeof Markdown>['components'] = {
  h1: ({ children }) => <h4>{children}</h4>,
  h2: ({ children }) => <h5>{children}</h5>,
  h3: ({ children }) => <h6>{children}</h6>,
  h4: ({ children }) => <h6>{children}</h6>,
  h5: ({ children }) => <h6>{children}</h6>,
  pre: ({ node, children }) => (
    <div className={styles.code}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, which the keyboard needs */}
      <pre tabIndex={0}>{children}</pre>
      <CopyButton text={textOf(node as Hast)} what={texts.code} />
    </div>
  ),
}

/** An answer, drawn from its Markdown. */
export function AnswerText({ text }: { text: string }) {
  return (
    <Markdown allowedElements={[...shownElements]} unwrapDisallowed components={components}>
      {text}
    </Markdown>
  )
}

function textOf({ value = '', children = [] }: Hast): string {
  return value + children.map(textOf).join('')
}

const texts = { code: 'the code' } as const
