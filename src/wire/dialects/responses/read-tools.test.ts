import { describe, expect, it } from 'vitest'
import { readToolChoice, ToolList } from './read-tools.ts'

const allow = (tools: object[]) => ({ type: 'allowed_tools', tools })

function listOf(...tools: object[]): ToolList {
  const list = new ToolList()
  list.add(tools, 'tools')
  return list
}

describe('allowed tools', () => {
  const inSpace = { type: 'namespace', name: 's', tools: [{ type: 'function', name: 'f' }] }
  const list = listOf({ type: 'function', name: 'f' }, inSpace, { type: 'function', name: 'g' })

  it.each([
    ['a name stands for all namespaces', [{ name: 'f' }], [undefined, 's']],
    ['a name in a namespace', [{ name: 'f', namespace: 's' }], ['s']],
    ['a name in another namespace', [{ name: 'f', namespace: 't' }], []],
    ['another name', [{ name: 'h' }], []],
  ])('are those that the request defines: %s', (_name, allowed, namespaces) => {
    const { tools } = readToolChoice(allow(allowed), list)
    expect(tools.map(tool => tool.namespace)).toEqual(namespaces)
    expect(tools.every(tool => tool.name === 'f')).toBe(true)
  })

  it('are each read once, however many tools the request defines', () => {
    let reads = 0
    const allowed = Array.from({ length: 500 }, () => ({
      get name() {
        reads++
        return 'other'
      },
    }))
    const many = listOf(...Array.from({ length: 500 }, (_, at) => ({ type: 'function', name: `f${at}` })))
    expect(readToolChoice(allow(allowed), many).tools).toEqual([])
    expect(reads).toBeLessThan(4 * 500)
  })
})

it.each([
  [{}, 'missing_parameter', '"tool_choice.type" is required: it must be function, custom or allowed_tools.'],
  [{ type: 5 }, 'invalid_value', '"tool_choice.type" must be function, custom or allowed_tools; got 5.'],
  [
    { type: 'function' },
    'missing_parameter',
    '"tool_choice.name" is required: it must be the name of a tool of this request.',
  ],
])('the choice %j is refused by naming what is wrong', (choice, code, message) => {
  const list = listOf({ type: 'function', name: 'f' })
  expect(() => readToolChoice(choice, list)).toThrow(expect.objectContaining({ code, message }))
})

it.each([
  [{}, 'missing_parameter'],
  [{ type: 5 }, 'invalid_value'],
])('the tool %j is refused', (tool, code) => {
  expect(() => listOf(tool)).toThrow(expect.objectContaining({ code, param: 'tools[0].type' }))
})
