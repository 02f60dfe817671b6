import { cloneElement, Fragment, type ReactElement, type ReactNode } from 'react'
import { type Descriptor, partsOf } from './i18n.ts'

/**
 * A text with elements in it: `<0>` to `</0>` surround what is in one, `<1/>` stands for one. A value that looks like a
 * tag stays text.
 */
export function Trans({
  components = {},
  ...descriptor
}: Descriptor & { components?: Readonly<Record<string, ReactElement>> }): ReactNode {
  const outer: ReactNode[][] = []
  let nodes: ReactNode[] = []
  let key = 0
  for (const part of partsOf(descriptor)) {
    if (typeof part !== 'string') {
      nodes.push(<Fragment key={key++}>{part.value as ReactNode}</Fragment>)
      continue
    }
    for (const piece of part.split(/(<\/?\w+\/?>)/)) {
      const [, end, name, empty] = /^<(\/?)(\w+)(\/?)>$/.exec(piece) ?? []
      const element = components[name ?? '']
      if (element === undefined) nodes.push(piece)
      else if (empty) nodes.push(cloneElement(element, { key: key++ }))
      else if (!end) {
        outer.push(nodes)
        nodes = []
      } else {
        const inner = nodes
        nodes = outer.pop() ?? []
        nodes.push(cloneElement(element, { key: key++ }, ...inner))
      }
    }
  }
  return nodes
}
