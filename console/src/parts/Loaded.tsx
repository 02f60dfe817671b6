import { Skeleton } from '@mantine/core'
import { type ReactNode, useEffect, useState } from 'react'
import { ProblemBlock } from './ProblemBlock.tsx'

interface QueryState<T> {
  readonly data: T | undefined
  readonly error: Error | null
  readonly refetch: () => unknown
}

const SKELETON_AFTER_MS = 150

/**
 * Shows the data of a query. Old data stays while new data loads; without any, a block of the final height takes its
 * place, so that the page does not jump.
 *
 * @param props.height of the loaded content, in pixels
 */
export function Loaded<T>({
  query,
  height,
  children,
}: {
  query: QueryState<T>
  height: number
  children: (data: T) => ReactNode
}) {
  if (query.data !== undefined) return children(query.data)
  if (query.error !== null) return <ProblemBlock error={query.error} onRetry={() => query.refetch()} />
  return <LateSkeleton height={height} />
}

function LateSkeleton({ height }: { height: number }) {
  const [isShown, setShown] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), SKELETON_AFTER_MS)
    return () => clearTimeout(timer)
  }, [])
  return <div aria-busy="true">{isShown ? <Skeleton height={height} /> : <div style={{ height }} />}</div>
}
