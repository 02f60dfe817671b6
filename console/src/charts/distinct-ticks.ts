/** Returns about as many ticks as wanted: fewer, if two of them would have the same label, such as 0.5 and 1 in whole numbers. */
export function distinctTicks(
  ticksOf: (count: number) => number[],
  wanted: number,
  text: (value: number) => string,
): { readonly value: number; readonly label: string }[] {
  const ticks = ticksOf(wanted).map(value => ({ value, label: text(value) }))
  const isDistinct = new Set(ticks.map(({ label }) => label)).size === ticks.length
  return isDistinct || wanted <= 1 ? ticks : distinctTicks(ticksOf, wanted - 1, text)
}
