import { infiniteQueryOptions } from '@tanstack/react-query'
import { queryText, request } from './request.ts'
import { sameSubject } from './same-subject.ts'

/**
 * A list that is read page by page.
 *
 * @param path of the list, below /console/api
 * @param filter the query of the address, besides the cursor
 */
export const pages = <Page extends { readonly next_cursor: string | null }>(
  queryKey: readonly unknown[],
  path: string,
  filter: Parameters<typeof queryText>[0] = {},
) =>
  infiniteQueryOptions({
    queryKey,
    queryFn: ({ signal, pageParam: cursor }) =>
      request<Page>('GET', `${path}${queryText({ ...filter, cursor })}`, { signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: page => page.next_cursor ?? undefined,
    placeholderData: sameSubject(queryKey),
  })
