/** `['endpoints', 0, 'name']` as `endpoints[0].name`, behind `start` if it lies deeper. */
export function keyPath(path: readonly PropertyKey[], start = ''): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`
    return text === '' ? String(step) : `${text}.${String(step)}`
  }, start)
}
