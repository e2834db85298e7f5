-- SPDX-License-Identifier: BSD-3-Clause
-- Copyright the librpma authors

-- links.lua -- a pandoc filter: names of manuals in bold, and links to other documents, lead to their pages of the site
--
-- The metadata "pages" says which page a name is on, "own-page" which one this is.

local pages = {}
local own_page

local function read_meta(meta)
  for name, page in pairs(meta.pages or {}) do
    pages[name] = pandoc.utils.stringify(page)
  end
  own_page = meta['own-page'] and pandoc.utils.stringify(meta['own-page'])
  meta.pages = nil
  return meta
end

local function link_name(strong)
  local page = pages[pandoc.utils.stringify(strong)]
  if page and page ~= own_page then
    return pandoc.Link(strong, page)
  end
end

local function link_document(link)
  -- a file of the sources that is not on the site
  if link.target:match('^%.%./') then
    return link.content
  end
  link.target = link.target:gsub('^([%w-]+)%.md', '%1.html')
  return link
end

return {
  { Meta = read_meta },
  { Strong = link_name, Link = link_document },
}
