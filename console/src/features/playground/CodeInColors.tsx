import { common, createLowlight } from 'lowlight'
import type { ReactNode } from 'react'

const lowlight = createLowlight(common)

/** Longer code stays in one colour: each piece of an answer colours all of it again. */
const CHARACTERS_MAX = 20_000

type Nodes = ReturnType<typeof lowlight.highlight>['children'] | readonly { readonly type: string }[]

/** Code with its keywords, texts, numbers and comments in colours; as it is in a language that is not known. */
export function CodeInColors({ code, language }: { code: string; language: string }) {
  const name = language.toLowerCase()
  if (!lowlight.registered(name) || code.length > CHARACTERS_MAX) return <code>{code}</code>
  return <code>{shown(lowlight.highlight(name, code).children)}</code>
}

function shown(nodes: Nodes): ReactNode {
  return nodes.map((node, index) => {
    if (node.type === 'text') return (node as { readonly value: string }).value
    if (node.type !== 'element') return null
    const { properties, children } = node as { readonly properties: object; readonly children: Nodes }
    const { className = [] } = properties as { readonly className?: readonly string[] }
    return (
      <span key={index} className={className.join(' ')}>
        {shown(children)}
      </span>
    )
  })
}
